import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/** What an application does with Kafka's own Java client. Prints one line per step; ends with status 1 at the first surprise. */
public class Everyday {
    static final int RECORDS = 20_000;
    static final int PARTITIONS = 3;
    static final long BASE_MS = 1_760_000_000_000L;
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String stem = args[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            cluster(admin);
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) roundTrip(admin, stem, codec);
            offsets(admin, stem);
            settings(admin, stem);
            deletion(admin, stem);
            refusals(admin, stem);
            inspection(admin, stem);
        }
        System.out.println("done");
        System.exit(0);
    }

    static void step(String name) { System.out.println("ok " + name); }

    static void check(boolean holds, String what) {
        if (!holds) { System.out.println("FAILED " + what); System.exit(1); }
    }

    static void create(Admin admin, String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(configs))).all().get();
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 5, "max.request.size", 10_000_000));
        config.putAll(more);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", false, "auto.offset.reset", "none",
            "allow.auto.create.topics", false);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static void cluster(Admin admin) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        check(cluster.nodes().get().size() == 1, "one node");
        check(cluster.clusterId().get().length() == 22, "cluster id of 22 characters");
        check(cluster.controller().get() != null, "a controller");
        check(admin.describeFeatures().featureMetadata().get() != null, "features");
        step("cluster");
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int i) {
        byte[] key = i % 7 == 0 ? null : bytes("key-" + i % 1000);
        byte[] value = i % 11 == 3 && i % 7 != 0 ? null : bytes("value-" + i + "-" + "x".repeat(i % 50));
        ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(topic, i % PARTITIONS, BASE_MS + i, key, value);
        if (i % 2 == 0) made.headers().add("a", bytes("" + i)).add("a", null).add("b", new byte[0]);
        return made;
    }

    static void roundTrip(Admin admin, String stem, String codec) throws Exception {
        String topic = stem + "-" + codec;
        create(admin, topic, PARTITIONS, Map.of());
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {  // idempotent by default
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < RECORDS; i++) sent.add(producer.send(record(topic, i)));
            producer.flush();
            for (int i = 0; i < RECORDS; i++) check(sent.get(i).get().offset() == i / PARTITIONS, "offset of record " + i);
        }
        int seen = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            List<TopicPartition> all = new ArrayList<>();
            for (int p = 0; p < PARTITIONS; p++) all.add(new TopicPartition(topic, p));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long deadline = System.currentTimeMillis() + 60_000;
            while (seen < RECORDS && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> got : consumer.poll(Duration.ofMillis(500))) {
                    compare(got, record(topic, (int) got.offset() * PARTITIONS + got.partition()));
                    seen++;
                }
            }
        }
        check(seen == RECORDS, codec + ": read " + seen + " of " + RECORDS);
        step("round trip " + codec);
    }

    static void compare(ConsumerRecord<byte[], byte[]> got, ProducerRecord<byte[], byte[]> sent) {
        check(Arrays.equals(got.key(), sent.key()) && Arrays.equals(got.value(), sent.value()), "key and value at " + got.offset());
        check(got.timestamp() == sent.timestamp(), "timestamp at " + got.offset());
        Header[] a = got.headers().toArray(), b = sent.headers().toArray();
        check(a.length == b.length, "header count at " + got.offset());
        for (int i = 0; i < a.length; i++)
            check(a[i].key().equals(b[i].key()) && Arrays.equals(a[i].value(), b[i].value()), "header at " + got.offset());
    }

    static void offsets(Admin admin, String stem) throws Exception {
        TopicPartition where = new TopicPartition(stem + "-zstd", 0);
        long end = (RECORDS + PARTITIONS - 1) / PARTITIONS;
        check(listed(admin, where, OffsetSpec.earliest()) == 0, "earliest");
        check(listed(admin, where, OffsetSpec.latest()) == end, "latest");
        check(listed(admin, where, OffsetSpec.maxTimestamp()) == end - 1, "max timestamp");
        check(listed(admin, where, OffsetSpec.forTimestamp(BASE_MS + 3000)) == 1000, "by timestamp");
        check(listed(admin, where, OffsetSpec.forTimestamp(BASE_MS + 3001)) == 1001, "between two timestamps");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            check(consumer.offsetsForTimes(Map.of(where, BASE_MS + 300)).get(where).offset() == 100, "consumer by timestamp");
            check(consumer.offsetsForTimes(Map.of(where, BASE_MS * 2)).get(where) == null, "after the last timestamp");
            consumer.assign(List.of(where));
            consumer.seek(where, 777);
            check(consumer.poll(Duration.ofSeconds(10)).iterator().next().offset() == 777, "seek into a batch");
        }
        step("offsets");
    }

    static long listed(Admin admin, TopicPartition where, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get().offset();
    }

    static void settings(Admin admin, String stem) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, stem + "-none");
        Config before = admin.describeConfigs(List.of(topic)).all().get().get(topic);
        check(before.get("retention.ms").value().equals("604800000"), "default retention");
        check(before.get("cleanup.policy").isDefault(), "default cleanup policy");
        List<AlterConfigOp> ops = List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND));
        admin.incrementalAlterConfigs(Map.of(topic, ops)).all().get();
        await(() -> {
            Config after = admin.describeConfigs(List.of(topic)).all().get().get(topic);
            return after.get("retention.ms").value().equals("7200000")
                && after.get("retention.ms").source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG
                && new TreeSet<>(List.of(after.get("cleanup.policy").value().split(","))).equals(new TreeSet<>(List.of("compact", "delete")));
        }, "altered settings");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, admin.describeCluster().nodes().get().iterator().next().idString());
        Config brokerConfig = admin.describeConfigs(List.of(broker), new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true)).all().get().get(broker);
        check(brokerConfig.entries().size() > 200, "broker settings: " + brokerConfig.entries().size());
        check(brokerConfig.get("num.partitions").documentation() != null, "documentation of settings");
        step("settings");
    }

    interface Condition { boolean holds() throws Exception; }

    static void await(Condition condition, String what) throws Exception {
        long deadline = System.currentTimeMillis() + 10_000;
        while (!condition.holds()) {
            check(System.currentTimeMillis() < deadline, what);
            Thread.sleep(50);
        }
    }

    static void deletion(Admin admin, String stem) throws Exception {
        TopicPartition where = new TopicPartition(stem + "-gzip", 1);
        DeletedRecords deleted = admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(500))).lowWatermarks().get(where).get();
        check(deleted.lowWatermark() == 500, "low watermark");
        check(listed(admin, where, OffsetSpec.earliest()) == 500, "earliest after deletion");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(where));
            consumer.seek(where, 10);
            expect(OffsetOutOfRangeException.class, () -> consumer.poll(Duration.ofSeconds(10)));
        }
        admin.createPartitions(Map.of(stem + "-gzip", NewPartitions.increaseTo(5))).all().get();
        await(() -> admin.describeTopics(List.of(stem + "-gzip")).allTopicNames().get().get(stem + "-gzip").partitions().size() == 5, "more partitions");
        admin.deleteTopics(List.of(stem + "-gzip")).all().get();
        await(() -> !admin.listTopics().names().get().contains(stem + "-gzip"), "topic gone");
        step("deletion");
    }

    interface Action { void run() throws Exception; }

    static void expect(Class<? extends Throwable> kind, Action action) throws Exception {
        try {
            action.run();
        } catch (ExecutionException wrapped) {
            check(kind.isInstance(wrapped.getCause()), kind.getSimpleName() + " expected, got " + wrapped.getCause());
            return;
        } catch (RuntimeException failure) {
            check(kind.isInstance(failure), kind.getSimpleName() + " expected, got " + failure);
            return;
        }
        check(false, kind.getSimpleName() + " expected, nothing thrown");
    }

    static void refusals(Admin admin, String stem) throws Exception {
        create(admin, stem + "-small", 1, Map.of("max.message.bytes", "2000"));
        create(admin, stem + "-keyed", 1, Map.of("cleanup.policy", "compact"));
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("max.block.ms", 3000))) {
            expect(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(stem + "-small", new byte[5000])).get());
            expect(InvalidRecordException.class, () -> producer.send(new ProducerRecord<>(stem + "-keyed", bytes("no key"))).get());
        }
        expect(UnknownTopicOrPartitionException.class, () -> admin.describeTopics(List.of("missing")).allTopicNames().get());
        expect(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of("missing")).all().get());
        expect(TopicExistsException.class, () -> create(admin, stem + "-keyed", 1, Map.of()));
        expect(InvalidTopicException.class, () -> create(admin, "not a name", 1, Map.of()));
        expect(InvalidPartitionsException.class, () -> create(admin, stem + "-zero", 0, Map.of()));
        expect(InvalidReplicationFactorException.class,
            () -> admin.createTopics(List.of(new NewTopic(stem + "-three", 1, (short) 3))).all().get());
        expect(InvalidConfigurationException.class, () -> create(admin, stem + "-bad", 1, Map.of("retention.ms", "soon")));
        step("refusals");
    }

    static void inspection(Admin admin, String stem) throws Exception {
        TopicDescription described = admin.describeTopics(List.of(stem + "-zstd")).allTopicNames().get().get(stem + "-zstd");
        check(described.partitions().size() == PARTITIONS, "partitions described");
        check(described.partitions().get(0).isr().size() == 1, "in-sync replicas");
        check(admin.describeTopics(TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds().get().size() == 1, "by topic id");
        int node = described.partitions().get(0).leader().id();
        Map<String, LogDirDescription> dirs = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
        TopicPartition where = new TopicPartition(stem + "-zstd", 0);
        check(dirs.values().stream().anyMatch(d -> d.replicaInfos().containsKey(where) && d.replicaInfos().get(where).size() > 0), "log dirs");
        List<ProducerState> producers = new ArrayList<>(admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers());
        check(producers.size() == 1 && producers.get(0).producerId() >= 0, "one producer on the partition");
        check(producers.get(0).lastSequence() == (RECORDS + PARTITIONS - 1) / PARTITIONS - 1, "its last sequence");
        check(!admin.listConfigResources().all().get().isEmpty(), "config resources");
        step("inspection");
    }
}

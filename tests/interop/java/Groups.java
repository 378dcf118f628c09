import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** Groups under both protocols and transactions of the second generation, with Kafka's own Java client. */
public class Groups {
    static final int PARTITIONS = 6;
    static final int RECORDS = 3000;
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        String stem = args[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            check(admin.describeFeatures().featureMetadata().get().finalizedFeatures().get("transaction.version").maxVersionLevel() == 2, "transaction.version 2");
            for (String protocol : List.of("classic", "consumer")) group(admin, stem, protocol);
            transactions(admin, stem);
            fencing(admin, stem);
        }
        System.out.println("done");
        System.exit(0);
    }

    static void step(String name) { System.out.println("ok " + name); }

    static void check(boolean holds, String what) {
        if (!holds) { System.out.println("FAILED " + what); System.exit(1); }
    }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static String create(Admin admin, String topic) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(PARTITIONS), Optional.empty()))).all().get();
        return topic;
    }

    static KafkaProducer<byte[], byte[]> producer(String transactionalId) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 1));
        if (transactionalId != null) config.put("transactional.id", transactionalId);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, String protocol) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "group.protocol", protocol,
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "isolation.level", "read_committed", "max.poll.records", 200));
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void fill(String topic) {
        try (KafkaProducer<byte[], byte[]> producer = producer(null)) {
            for (int i = 0; i < RECORDS; i++) producer.send(new ProducerRecord<>(topic, i % PARTITIONS, null, bytes("" + i)));
            producer.flush();
        }
    }

    static int poll(KafkaConsumer<byte[], byte[]> consumer, List<String> into) {
        ConsumerRecords<byte[], byte[]> got = consumer.poll(Duration.ofMillis(200));
        got.forEach(record -> into.add(new String(record.value(), StandardCharsets.UTF_8)));
        return got.count();
    }

    static long deadline() { return System.currentTimeMillis() + 60_000; }

    static void await(Map<KafkaConsumer<byte[], byte[]>, Integer> wanted, List<String> seen) {
        long until = deadline();
        while (wanted.entrySet().stream().anyMatch(e -> e.getKey().assignment().size() != e.getValue())) {
            check(System.currentTimeMillis() < until, "assignments of " + wanted.values());
            wanted.keySet().forEach(consumer -> poll(consumer, seen));
        }
    }

    static void group(Admin admin, String stem, String protocol) throws Exception {
        String topic = create(admin, stem + "-" + protocol), group = topic + "-group";
        fill(topic);
        List<String> seen = new ArrayList<>();
        KafkaConsumer<byte[], byte[]> one = consumer(group, protocol), two = consumer(group, protocol);
        one.subscribe(List.of(topic));
        await(Map.of(one, PARTITIONS), seen);
        long until = deadline();
        while (seen.size() < RECORDS && System.currentTimeMillis() < until) poll(one, seen);
        check(seen.size() == RECORDS && new HashSet<>(seen).size() == RECORDS, protocol + ": every record once");
        one.commitSync();
        two.subscribe(List.of(topic));
        await(Map.of(one, PARTITIONS / 2, two, PARTITIONS / 2), seen);
        check(seen.size() == RECORDS, protocol + ": nothing twice after a rebalance");
        GroupState state = admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState();
        check(state == GroupState.STABLE, protocol + ": stable, not " + state);
        fill(topic);
        until = deadline();
        while (seen.size() < 2 * RECORDS && System.currentTimeMillis() < until) { poll(one, seen); poll(two, seen); }
        check(seen.size() == 2 * RECORDS, protocol + ": the second half, " + seen.size());
        one.commitSync();
        two.commitSync();
        two.close();
        await(Map.of(one, PARTITIONS), seen);
        one.close();
        Map<TopicPartition, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        check(offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum() == 2 * RECORDS, protocol + ": committed offsets");
        admin.deleteConsumerGroups(List.of(group)).all().get();
        step("group " + protocol);
    }

    static void transactions(Admin admin, String stem) throws Exception {
        String in = create(admin, stem + "-in"), out = create(admin, stem + "-out"), group = stem + "-copy";
        fill(in);
        List<String> told = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(stem + "-copier"); KafkaConsumer<byte[], byte[]> consumer = consumer(group, "consumer")) {
            producer.initTransactions();
            consumer.subscribe(List.of(in));
            int copied = 0;
            for (int turn = 0; copied < RECORDS; turn++) {
                check(turn < 1000, "the copy comes to an end");
                ConsumerRecords<byte[], byte[]> got = consumer.poll(Duration.ofMillis(200));
                if (got.isEmpty()) continue;
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : got) producer.send(new ProducerRecord<>(out, record.partition(), null, record.value()));
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                for (TopicPartition where : got.partitions()) {
                    List<ConsumerRecord<byte[], byte[]>> rows = got.records(where);
                    ends.put(where, new OffsetAndMetadata(rows.get(rows.size() - 1).offset() + 1));
                }
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                if (turn % 3 == 1) {
                    producer.abortTransaction();
                    for (TopicPartition where : got.partitions()) consumer.seek(where, got.records(where).get(0).offset());
                } else {
                    producer.commitTransaction();
                    copied += got.count();
                }
            }
        }
        try (KafkaConsumer<byte[], byte[]> reader = consumer(stem + "-reader", "consumer")) {
            reader.subscribe(List.of(out));
            long until = deadline();
            while (told.size() < RECORDS && System.currentTimeMillis() < until) poll(reader, told);
            for (int i = 0; i < 5; i++) poll(reader, told);
        }
        check(told.size() == RECORDS && new HashSet<>(told).size() == RECORDS, "each input once, not " + told.size());
        TransactionDescription found = admin.describeTransactions(List.of(stem + "-copier")).description(stem + "-copier").get();
        check(found.state() == TransactionState.COMPLETE_COMMIT || found.state() == TransactionState.COMPLETE_ABORT, "complete, not " + found.state());
        check(found.producerEpoch() > 3, "an epoch for every transaction (KIP-890), not " + found.producerEpoch());
        step("transactions");
    }

    static void fencing(Admin admin, String stem) throws Exception {
        String topic = create(admin, stem + "-fenced");
        KafkaProducer<byte[], byte[]> old = producer(stem + "-one");
        old.initTransactions();
        old.beginTransaction();
        old.send(new ProducerRecord<>(topic, 0, null, bytes("old"))).get();
        try (KafkaProducer<byte[], byte[]> young = producer(stem + "-one")) {
            young.initTransactions();
            young.beginTransaction();
            young.send(new ProducerRecord<>(topic, 0, null, bytes("young"))).get();
            young.commitTransaction();
        }
        try {
            old.commitTransaction();
            check(false, "a fenced producer commits");
        } catch (org.apache.kafka.common.KafkaException expected) {
            old.close(Duration.ZERO);
        }
        step("fencing");
    }
}

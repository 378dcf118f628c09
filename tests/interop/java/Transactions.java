import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions with Kafka's own producer, which speaks the second generation of the protocol (KIP-890). */
public class Transactions {
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String stem = arguments[1];
        String input = stem + "-in";
        String output = stem + "-out";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(input, 1, (short) 1), new NewTopic(output, 3, (short) 1))).all().get();
        }
        commitAndAbort(stem, output);
        fence(stem, output);
        copy(stem, input, output);
    }

    static void commitAndAbort(String stem, String topic) {
        try (KafkaProducer<String, String> producer = producer(stem + "-a")) {
            producer.initTransactions();
            for (int round = 0; round < 20; round++) {
                producer.beginTransaction();
                for (int i = 0; i < 6; i++) {
                    producer.send(new ProducerRecord<>(topic, i % 3, null, round + "-" + i));
                }
                producer.flush();
                if (round % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        expect(read(topic, "read_committed").size(), 60, "committed records");
        expect(read(topic, "read_uncommitted").size(), 120, "records");
        System.out.println("ok commit and abort");
    }

    static void fence(String stem, String topic) {
        try (KafkaProducer<String, String> zombie = producer(stem + "-z");
                KafkaProducer<String, String> heir = producer(stem + "-z")) {
            zombie.initTransactions();
            zombie.beginTransaction();
            zombie.send(new ProducerRecord<>(topic, 0, null, "zombie"));
            zombie.flush();
            heir.initTransactions();
            try {
                zombie.commitTransaction();
                throw new IllegalStateException("the zombie committed");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                heir.beginTransaction();
                heir.send(new ProducerRecord<>(topic, 0, null, "heir"));
                heir.commitTransaction();
            }
        }
        expect(read(topic, "read_committed").size(), 61, "committed records");
        System.out.println("ok fencing");
    }

    static void copy(String stem, String input, String output) {
        try (KafkaProducer<String, String> filler = producer(stem + "-f")) {
            filler.initTransactions();
            filler.beginTransaction();
            for (int i = 0; i < 500; i++) {
                filler.send(new ProducerRecord<>(input, 0, null, "copy-" + i));
            }
            filler.commitTransaction();
        }
        Properties settings = consumerSettings("read_committed");
        settings.put("group.id", stem + "-g");
        settings.put("max.poll.records", "50");
        int copied = 0;
        int rounds = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
                KafkaProducer<String, String> producer = producer(stem + "-c")) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            while (copied < 500) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                List<ConsumerRecord<String, String>> batch = new ArrayList<>();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(5))) {
                    batch.add(record);
                    offsets.put(new TopicPartition(input, 0), new OffsetAndMetadata(record.offset() + 1));
                }
                if (batch.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : batch) {
                    producer.send(new ProducerRecord<>(output, record.value()));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (rounds++ % 3 == 1) {
                    producer.abortTransaction();
                    consumer.seek(new TopicPartition(input, 0), batch.get(0).offset());
                } else {
                    producer.commitTransaction();
                    copied += batch.size();
                }
            }
            OffsetAndMetadata committed = consumer.committed(java.util.Set.of(new TopicPartition(input, 0))).get(new TopicPartition(input, 0));
            expect((int) committed.offset(), 500, "committed offset");
        }
        expect((int) read(output, "read_committed").stream().filter(v -> v.startsWith("copy-")).distinct().count(), 500, "copies");
        expect((int) read(output, "read_committed").stream().filter(v -> v.startsWith("copy-")).count(), 500, "copies once");
        System.out.println("ok copy");
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", transactionalId);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    static Properties consumerSettings(String isolation) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }

    static List<String> read(String topic, String isolation) {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings(isolation))) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> found.add(record.value()));
            }
        }
        return found;
    }

    static void expect(int found, int wanted, String what) {
        if (found != wanted) {
            throw new IllegalStateException(what + ": " + found + " instead of " + wanted);
        }
    }
}

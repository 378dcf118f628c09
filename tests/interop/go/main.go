// What an application does with franz-go, which speaks the newest version of everything and checks strictly.
// Prints one line per step; ends with status 1 at the first surprise.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	records    = 20_000
	partitions = 3
	baseMs     = 1_760_000_000_000
)

func check(holds bool, format string, args ...any) {
	if !holds {
		fmt.Printf("FAILED "+format+"\n", args...)
		os.Exit(1)
	}
}

func step(name string) { fmt.Println("ok", name) }

func client(bootstrap string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	check(err == nil, "client: %v", err)
	return made
}

func record(topic string, i int) *kgo.Record {
	made := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Timestamp: time.UnixMilli(baseMs + int64(i))}
	if i%7 != 0 {
		made.Key = []byte(fmt.Sprintf("key-%d", i%1000))
	}
	if i%11 != 3 {
		made.Value = bytes.Repeat([]byte(fmt.Sprintf("value-%d", i)), 1+i%5)
	}
	if i%2 == 0 {
		made.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}}
	}
	return made
}

func same(got, sent *kgo.Record) bool {
	if !bytes.Equal(got.Key, sent.Key) || !bytes.Equal(got.Value, sent.Value) || len(got.Headers) != len(sent.Headers) {
		return false
	}
	for i := range got.Headers {
		if got.Headers[i].Key != sent.Headers[i].Key || !bytes.Equal(got.Headers[i].Value, sent.Headers[i].Value) {
			return false
		}
	}
	return (got.Key == nil) == (sent.Key == nil) && (got.Value == nil) == (sent.Value == nil) && got.Timestamp.Equal(sent.Timestamp)
}

func roundTrip(ctx context.Context, bootstrap, topic string, codec kgo.CompressionCodec) {
	writer := client(bootstrap, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
	defer writer.Close()
	var sent []*kgo.Record
	for i := 0; i < records; i++ {
		sent = append(sent, record(topic, i))
	}
	check(writer.ProduceSync(ctx, sent...).FirstErr() == nil, "produce to %s", topic)
	offsets := map[int32]kgo.Offset{}
	for p := int32(0); p < partitions; p++ {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	reader := client(bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))
	defer reader.Close()
	for seen := 0; seen < records; {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err() == nil, "fetch from %s: %v", topic, fetches.Err())
		fetches.EachRecord(func(got *kgo.Record) {
			expected := sent[int(got.Offset)*partitions+int(got.Partition)]
			check(same(got, expected), "record %d of partition %d", got.Offset, got.Partition)
			seen++
		})
	}
}

func main() {
	bootstrap, stem := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	base := client(bootstrap, kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer base.Close()
	admin := kadm.NewClient(base)

	metadata, err := admin.BrokerMetadata(ctx)
	check(err == nil && len(metadata.Brokers) == 1, "broker metadata: %v", err)
	step("cluster")

	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		topic := stem + "-" + name
		_, err := admin.CreateTopic(ctx, partitions, -1, nil, topic)
		check(err == nil, "create %s: %v", topic, err)
		roundTrip(ctx, bootstrap, topic, codec)
		step("round trip " + name)
	}

	topic := stem + "-zstd"
	listed, err := admin.ListOffsetsAfterMilli(ctx, baseMs+3001, topic)
	check(err == nil, "offsets by timestamp: %v", err)
	found, _ := listed.Lookup(topic, 0)
	check(found.Offset == 1001, "offset by timestamp: %d", found.Offset)
	highest, err := admin.ListMaxTimestampOffsets(ctx, topic)
	check(err == nil, "max timestamp: %v", err)
	found, _ = highest.Lookup(topic, 0)
	check(found.Offset == (records+partitions-1)/partitions-1, "max timestamp offset: %d", found.Offset)
	step("offsets")

	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 100}}})
	check(err == nil && deleted.Error() == nil, "delete records: %v %v", err, deleted.Error())
	starts, err := admin.ListStartOffsets(ctx, topic)
	found, _ = starts.Lookup(topic, 0)
	check(err == nil && found.Offset == 100, "start offset after deletion: %d", found.Offset)
	value := "7200000"
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic)
	check(err == nil && altered[0].Err == nil, "alter configs: %v", err)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	check(err == nil && len(configs) == 1 && len(configs[0].Configs) > 20, "describe configs: %v", err)
	step("admin")

	_, err = admin.CreateTopic(ctx, 1, -1, nil, topic)
	check(errors.Is(err, kerr.TopicAlreadyExists), "existing topic: %v", err)
	limit := "2000"
	_, err = admin.CreateTopic(ctx, 1, -1, map[string]*string{"max.message.bytes": &limit}, stem+"-small")
	check(err == nil, "create a topic with small records: %v", err)
	big := &kgo.Record{Topic: stem + "-small", Value: make([]byte, 5000)}
	err = base.ProduceSync(ctx, big).FirstErr()
	check(errors.Is(err, kerr.MessageTooLarge), "oversized record: %v", err)
	lost := client(bootstrap, kgo.UnknownTopicRetries(1))
	defer lost.Close()
	err = lost.ProduceSync(ctx, &kgo.Record{Topic: stem + "-missing", Value: []byte("x")}).FirstErr()
	check(errors.Is(err, kerr.UnknownTopicOrPartition), "unknown topic: %v", err)
	step("refusals")
	fmt.Println("done")
}

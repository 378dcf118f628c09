"""Every setting of Kafka 4.3, one row each, by family. Facts are Kafka's; the sentences are ours."""

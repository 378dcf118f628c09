"""`make bench`: moldau and Apache Kafka side by side on one machine, in one run."""

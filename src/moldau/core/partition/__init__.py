"""One replica of one partition: leadership, in-sync set and high watermark, fetch sessions."""

"""What one broker hosts: its partitions, following the metadata image."""

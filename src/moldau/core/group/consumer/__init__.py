"""KIP-848 groups: the coordinator assigns partitions itself, and moves members to new assignments one by one."""

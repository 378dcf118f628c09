"""Consumer groups as a decider: members, generations and offsets behind one partition of `__consumer_offsets`."""

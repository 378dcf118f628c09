"""The simulator: real broker code on virtual time, simulated disk and network, under a seed. Nothing imports it."""

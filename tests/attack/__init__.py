"""A live broker with a well-behaved client beside it, under seeded rudeness, hunger and damage: `make attack`."""

"""Pure cores: no event loop, no clock, no disk, no sockets. Time and chance are arguments."""

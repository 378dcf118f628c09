"""The load generator: C programs compiled at run time, and the requests they replay."""

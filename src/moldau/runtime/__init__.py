"""The real world behind the ports: disk, network, clock, tasks."""

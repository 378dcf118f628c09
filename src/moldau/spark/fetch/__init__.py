"""What executors do: fetch offset ranges from the leaders and turn them into Arrow."""

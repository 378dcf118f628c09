"""Two streams of activity, aggregated per minute into a third."""

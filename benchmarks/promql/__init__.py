"""PromQL: random queries answered by a Prometheus too, and the same questions to all sides on a clock."""

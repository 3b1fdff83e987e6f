"""Hours of metrics that rules make of other records are claimed, made by a task and swapped whole."""

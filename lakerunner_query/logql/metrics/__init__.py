"""Metric queries over logs: range and vector aggregations, binary operators, `label_replace`."""

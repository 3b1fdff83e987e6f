"""Expressions over series and steps: PromQL today, the metric half of LogQL on the same parts."""

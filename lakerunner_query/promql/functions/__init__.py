"""PromQL's functions; `registry.py` has one row for each."""

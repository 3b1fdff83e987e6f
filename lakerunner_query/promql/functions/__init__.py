"""Functions of PromQL; `registry.py` has one row for each."""

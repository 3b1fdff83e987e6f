"""The segment index records raw objects, work on them, and live segments.

`types.py` holds the frozen values, `contract.py` the operations, `postgres/` the real thing and `memory/` its
twin for unit tests; one contract test runs over both. All SQL is in `sql/`.
"""

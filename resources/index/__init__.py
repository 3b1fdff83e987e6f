"""The segment index: what raw objects exist, who works on what, which segments are live.

`types.py` holds the frozen values, `contract.py` the operations, `postgres/` the real thing and
`memory/` its twin for unit tests; one contract test runs over both. All SQL is in `sql/`.
"""

"""Decoded tables in, one sorted Parquet segment out.

`logs.py` is the door: unify, sort, cut into row groups, write, append the stream table and the token
bloom. What readers need to know about the result is in `resources/lake`, since the query side never
imports this package.
"""

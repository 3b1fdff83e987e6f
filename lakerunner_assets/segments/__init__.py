"""Writers turn decoded tables into one sorted Parquet segment.

They unify the tables, sort, cut row groups, write, and append the stream table and the token bloom. What
readers need to know about the result is in `resources/lake`, since the query side never imports this package.
"""

"""The answer side: query text in, rows out, without Dagster or Spark.

The path of a query is the list of folders: `lang` (text to AST), `plan` (AST to logical nodes and rules),
`execute` (segments, slices, dispatch to workers), `api` (HTTP); `worker` is the other end of a dispatch.
`engine.py` is the one file that walks this path in order.
"""

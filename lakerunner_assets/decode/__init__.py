"""Raw bytes in, Arrow tables out: what producers sent becomes columns, and nothing of it is dropped.

`otlp_logs.py` is the door; `compression.py` opens the envelope, `wire.py` and `scan.py` read protobuf
without a Python object per record, and the other modules turn slices of bytes into columns. Writing
belongs next door, in `lakerunner_assets/segments`.
"""

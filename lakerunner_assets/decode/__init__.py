"""Raw bytes in, Arrow tables out: what producers sent becomes columns, and nothing of it is dropped.

`door.py` is where everybody enters: it opens the envelope (`payload.py`), tells the format from the content
(`formats.py`) and hands the payload to a decoder: `otlp/`, `push/` or `foreign/`. `wire.py` and `fields.py`
read protobuf without a Python object per record; the other modules turn slices of bytes into columns.
Writing belongs next door, in `lakerunner_assets/segments`.
"""

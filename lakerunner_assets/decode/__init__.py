"""Decoders turn raw objects into Arrow tables and drop nothing that producers sent.

`dispatch.py` opens the envelope (`payload.py`), recognises the format (`formats.py`) and calls a decoder of
`otlp/`, `json/`, `push/` or `foreign/`. `wire_kernels.py` and `field_kernels.py` read protobuf without a
Python object per record; `text.py` and `attributes.py` turn slices of bytes into columns.
"""

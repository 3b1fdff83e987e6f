"""OTLP protobuf has one decoder per signal: `logs.py`, `metrics.py` and `traces.py`.

`groups_kernels.py` walks the frame they share, `framing.py` cuts large objects into slices, `owners.py` turns
resources and scopes into columns.
"""

"""OpenTelemetry's own messages: `logs.py`, `metrics.py` and `traces.py` are the doors, one per signal.

`groups.py` walks the frame they share, `framing.py` cuts large objects into slices, `owners.py` turns
resources and scopes into columns.
"""

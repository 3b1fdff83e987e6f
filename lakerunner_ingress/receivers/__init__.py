"""Push receivers: OTLP/HTTP, Prometheus remote write and Loki push become raw objects.

A request is authenticated, read, opened and checked (`receive.py`), gathered with others of its lane
(`batching.py`), written as one object and announced (`writing.py`), and only then answered (`routes.py`).
`docs/decisions/0013-push-is-durable-before-it-is-answered.md` explains the failure of each step.
"""

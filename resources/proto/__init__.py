"""Message classes of the protocols that have no Python package: Prometheus remote write, Loki push, Status.

They are built from short tables at import (`build.py`), so there is no generated code and no compiler.
"""

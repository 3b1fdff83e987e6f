"""Protocols without a Python package get message classes: remote write, Loki push, Status.

They are built from short tables at import (`build.py`), so there is no generated code and no compiler.
"""

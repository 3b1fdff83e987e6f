"""Traces of a lake against a live Tempo with the same spans."""

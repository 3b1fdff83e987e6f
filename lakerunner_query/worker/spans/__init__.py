"""Readers of span segments: whole traces as frames, and units of TraceQL."""

"""JSON: OTLP's own encoding (`otlp.py`), and lines of anybody's objects (`lines.py`)."""

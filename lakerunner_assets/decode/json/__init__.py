"""JSON has two readers: OTLP's own encoding (`otlp.py`) and lines of foreign objects (`lines.py`)."""

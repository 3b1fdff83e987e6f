"""Measurements, one command per table: `python -m benchmarks.NAME [--quick] [--json OUT]`.

Every figure that the documentation names comes from here. Times are for reading; what may fail is an answer.
"""

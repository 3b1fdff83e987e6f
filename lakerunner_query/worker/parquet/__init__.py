"""Kernels decode Parquet pages straight into arrays; every length is checked against the page."""

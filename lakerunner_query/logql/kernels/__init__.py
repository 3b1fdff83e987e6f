"""Compiled kernels scan the bytes of many log lines at once."""

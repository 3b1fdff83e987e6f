"""Numba kernels that scan the bytes of many log lines at once."""

"""Kernels against the library calls that would replace them: `python -m benchmarks.kernels.<room>`."""

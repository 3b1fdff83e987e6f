"""The worker reads segments and runs kernels for one unit of work at a time."""

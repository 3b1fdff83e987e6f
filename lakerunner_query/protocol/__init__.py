"""Units of work and their answers travel between coordinator and workers as bytes."""

"""Vectors of series, their labels and rows: the values both languages compute with."""

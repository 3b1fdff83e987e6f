"""Vectors of series with their labels and rows are the values both languages compute with."""

"""Metric queries over logs: samples out of lines, windows over samples, and LogQL's operators on vectors.

`answer.py` is the way in. Vectors, label groups and folds are those of PromQL (`evaluate/`); the walk is
LogQL's own, because its operators, sorting and literals differ. Nothing here reads files.
"""

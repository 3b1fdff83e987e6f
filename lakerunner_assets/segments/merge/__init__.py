"""Sorted segments of one signal are merged into sorted segments in bounded memory.

Start at `run.py`; `rounds.py` brings the rows of many files together.
"""

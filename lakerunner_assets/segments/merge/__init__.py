"""Sorted segments of one signal in, sorted segments out, in bounded memory.

`run.py` is the door of the merge, `stream.py` that of the sorted rows themselves. Read on in `rounds.py`:
how rows of many files come together.
"""

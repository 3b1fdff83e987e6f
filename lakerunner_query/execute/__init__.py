"""Carrying a plan out: which segments, which slices, which worker, in which order.

Deciding (`slices`, `merge`) is pure; acting (`locate`, `dispatch`) is thin and asynchronous. `work.py` is
the contract with the query workers, spoken by both ends.
"""

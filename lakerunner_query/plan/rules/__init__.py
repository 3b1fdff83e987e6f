"""Rewrite rules, one idea per function, grouped by what they look at.

Every docstring shows a query before and after; `plan/optimise.py` holds their order.
"""

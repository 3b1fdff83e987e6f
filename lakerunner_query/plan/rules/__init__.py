"""Rewrite rules of log plans, one idea per file; `plan/optimise.py` applies them in order."""

"""The sweeper: retires what is older than its retention, and deletes files that nothing needs any more.

`plan.py` decides over frozen values, `act.py` does it step by step, `report.py` says what went. One at a time
by an advisory lock; two at once would do no harm, since every step judges its rows again under their locks.
"""

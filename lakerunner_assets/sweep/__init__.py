"""The sweeper retires data past its retention and deletes files that nothing needs.

`plan.py` decides over frozen values, `act.py` does it step by step, `report.py` counts what went. An advisory
lock lets one sweep run at a time; two at once would do no harm, since every step judges its rows again under
their locks.
"""

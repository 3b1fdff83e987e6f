"""Sensors and schedules look and request work; they never do it themselves.

`ingest.py` turns notifications into batches and run requests; `reconciler.py` requests whatever the tables
say is due, so that lost events and dead runs cost only time; `watchdog.py` runs outside the code server.
"""

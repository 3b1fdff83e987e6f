"""When work exists: sensors and schedules that look and request, and never do the work themselves.

`ingest.py` turns notifications into batches and run requests; `reconciler.py` requests whatever the tables
say is due, so that lost events and dead runs cost only time; `watchdog.py` runs outside the code server.
"""

"""Notifications in, references out: parse → validate → produce → acknowledge.

`pipeline.py` holds the steps in order, `shapes/` reads the messages of each cloud. Webhooks (`webhooks.py`)
and queues (`queues/`) only bring messages to the pipeline.
"""

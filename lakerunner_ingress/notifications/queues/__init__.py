"""Notifications from queues: one loop (`poll.py`) over one protocol (`queue.py`), one file per queue.

A message leaves its queue only after it is durable here: in Kafka, in the outbox, or as a dead letter.
"""

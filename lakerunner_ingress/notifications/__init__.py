"""Notifications in, references out: parse → validate → produce → acknowledge.

`pipeline.py` spells the order, one file per step. What a cloud says is read in `shapes/`; a webhook (`s3.py`,
`gcs.py`, `azure.py`) or a queue (`queues/`) only brings messages to the pipeline and never decides about one.
"""

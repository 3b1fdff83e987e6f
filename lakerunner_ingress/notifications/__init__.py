"""Notifications in, references out: parse → validate → produce → acknowledge.

`pipeline.py` spells the order, one file per step. An adapter (`s3.py` and those to come) only turns what
its sender speaks into the pipeline's input; it never decides about a record.
"""

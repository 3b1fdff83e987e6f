"""LogQL over columns: label columns, the stages of a pipeline, and samples out of lines.

Nothing here reads files; `source.py` says where rows come from. Stages work on a `LogFrame`, a run of rows
whose labels are dictionary-coded columns, so that a filter or a template sees each distinct value once.
"""

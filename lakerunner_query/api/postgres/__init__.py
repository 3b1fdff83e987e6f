"""PostgreSQL's wire protocol, version 3.0, as a read-only door to LakeQL."""

"""LakeQL: SQL over logs, metrics and spans, with the other languages as table functions."""

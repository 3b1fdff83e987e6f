"""Spans of one trace become a tree with times, errors and findings; pure."""

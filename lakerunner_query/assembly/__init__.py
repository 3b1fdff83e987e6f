"""Spans of one trace become a tree with times, errors and what is wrong with it; pure."""

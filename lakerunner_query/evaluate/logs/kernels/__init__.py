"""Loops over the bytes of log lines, compiled: what finds fields in a line and what gives values numbers."""

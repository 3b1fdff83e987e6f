"""Rules are read, checked, printed and kept here: derived metrics, recording rules and alerts."""

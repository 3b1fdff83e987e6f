"""The coordinator locates segments, cuts queries into units, dispatches them and merges answers."""

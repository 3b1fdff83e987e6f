"""The index's schema: numbered SQL files and the runner that applies them once, in order.

`schema.sql` is the sum of all migrations, written for people to read; a test proves that both build the
same database. A migration that was applied is never edited: its checksum would no longer match.
"""

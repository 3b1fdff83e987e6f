"""LogQL on segments: what of a pipeline DuckDB does, frames out of what it hands over, and the rest of it.

| file | what |
|---|---|
| `pushed.py` | conditions in SQL, exactly as the stages mean them |
| `statements.py` | the statements themselves |
| `label_columns.py` | labels of rows: of streams, structured metadata |
| `frames.py` | scanned rows as frames |
| `by_id.py` | rows with a trace or span id, without a statement |
| `scan.py`, `windows.py`, `wide.py` | log queries: in windows of time, narrow columns first |
| `rendering.py` | rows as finished text |
| `lake_source.py`, `buckets.py` | metric queries: rows, or counts out of SQL |
"""

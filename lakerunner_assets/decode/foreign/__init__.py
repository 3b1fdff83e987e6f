"""Foreign JSON lines, CSV and Parquet: fields are found by name, the rest becomes attributes."""

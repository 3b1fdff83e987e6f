"""JSON lines, CSV and Parquet of anybody: fields are found by name, everything else is an attribute."""

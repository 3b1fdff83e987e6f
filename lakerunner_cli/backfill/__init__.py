"""Back-fills: rebuilding hours through Dagster, and watching the progress."""

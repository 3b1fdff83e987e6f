"""Log segments: pruning, SQL, candidates, counts, names and patterns."""

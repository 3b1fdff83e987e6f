"""Object stores are opened by URL: whole objects, ranges, create-only puts, listings."""

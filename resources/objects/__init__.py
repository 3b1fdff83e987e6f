"""Object stores by URL: whole objects, ranges, create-only puts, listings."""

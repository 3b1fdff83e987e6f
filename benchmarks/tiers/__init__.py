"""What compaction, sealing and rollups cost, and how many bytes they leave."""

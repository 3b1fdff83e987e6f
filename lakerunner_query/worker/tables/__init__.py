"""SQL over the rows of segments: what a worker answers to LakeQL."""

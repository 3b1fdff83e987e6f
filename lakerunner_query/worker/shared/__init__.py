"""The segment cache, the byte-bounded LRU and JSON rendering serve all signals."""

"""Arithmetic of native and classic histograms, one by one and in batches of one layout."""

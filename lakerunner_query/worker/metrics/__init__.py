"""Metric queries on a worker: from segments to samples, and from samples to finished text.

| file | what |
|---|---|
| `series_table.py` | label sets of a segment, and which of them matchers want |
| `derived.py` | classic series (`_bucket`, `_sum`, `_count`, quantiles) of histogram and summary rows |
| `plain_groups.py` | row groups of floats alone: decoded straight to where samples are wanted |
| `page_kernels.py` | pages of Parquet, for those |
| `row_groups.py` | decoded columns of all other row groups, kept in memory |
| `joined.py` | rows of several segments as one run per series, one sample per millisecond |
| `as_series.py` | which rows are samples, in order of labels |
| `rollups.py` | functions answered from rollups |
| `lake_source.py` | all of it as the source that evaluation reads from |
"""

"""Expressions over series and steps: PromQL today, the metric half of LogQL on the same parts.

| file | what |
|---|---|
| `promql.py` | the one way in: `evaluate` for a run of steps, `settle` for all runs together |
| `vectors.py`, `source.py` | what expressions give, and where samples come from |
| `context.py`, `notes.py`, `failures.py` | what is passed around, said, and raised on the way |
| `walk.py`, `invariance.py` | every kind of expression to what evaluates it, once where once is enough |
| `selecting.py`, `smoothing.py`, `subqueries.py`, `ranges.py` | samples by window |
| `binary.py`, `matching.py`, `sets.py`, `operators.py`, `cells.py` | operators: sides, rows, cells |
| `aggregate.py`, `choosing.py`, `counted.py`, `ratios.py`, `histogram_sums.py` | aggregations |
| `reductions.py`, `ranking.py` | their kernels |
| `labels.py`, `rows.py`, `remembered.py`, `spelling.py` | label sets, rows, what was read, Go's spelling |
| `functions/`, `histogram/` | functions, and histograms as such |
"""

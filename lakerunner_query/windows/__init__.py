"""The arithmetic of windows: every range function, from samples and from rollups, with one answer.

| file | what |
|---|---|
| `functions.py` | which functions there are, the grid of evaluation times, what comes out |
| `samples.py` | functions from samples, as Prometheus 3 computes them |
| `buckets.py` | the same from rollup rows, and where only samples can tell |
| `choice.py` | which frequency serves which part of a window |
| the others | kernels, one idea each |

A sample is a bucket with one sample in it: what depends on first, last and seams only is one kernel for both.
"""

"""Ingest beside its peers: the same bytes through Lakerunner, VictoriaLogs, Loki and VictoriaMetrics.

`python -m benchmarks.ingest [--quick] [--json OUT]`. What is compared with whom, how peers
are got and how the figures are to be read is in `benchmarks/README.md`.

| file | what |
|---|---|
| `corpus/` | seeded telemetry: OTLP of three signals, JSON, CSV and Parquet twins, real log lines |
| `peers/` | peers as child processes on loopback: start, send, wait until flushed, count, CPU and bytes |
| `ours.py` | our way from the same bytes to segments |
| `rounds.py` | interleaved rounds and what is said about them |
| `logs.py` `metrics.py` `spans.py` `files.py` `memory.py` | one target each, as records |
| `stages.py` | where our CPU time goes (`--profile`) |
"""

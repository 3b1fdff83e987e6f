"""One file per signal, each holding its `SignalSpec`; `SIGNALS` lists those that are built."""

from __future__ import annotations

from lakerunner_assets.signals.logs import LOGS
from lakerunner_assets.signals.metrics import METRICS
from lakerunner_assets.signals.traces import TRACES
from lakerunner_assets.spec import SignalSpec
from resources.lake.layout import Signal

SIGNALS: dict[Signal, SignalSpec] = {spec.signal: spec for spec in (LOGS, METRICS, TRACES)}

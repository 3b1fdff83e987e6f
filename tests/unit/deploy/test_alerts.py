"""The alerts about Lakerunner itself fire when they should, over metrics that it really has."""

from __future__ import annotations

import re
from pathlib import Path

from lakerunner_cli.main import main

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "alerts.yaml"
SOURCES = (
    "lakerunner_ingress/pipeline_metrics.py",
    "lakerunner_query/ruler/process.py",
    "lakerunner_query/ruler/delivery.py",
)


def test_every_alert_fires_in_its_case_and_only_there() -> None:
    assert main(["rules", "test", str(Path(__file__).with_name("alerts_test.yaml"))]) == 0


def test_every_metric_is_one_of_the_product() -> None:
    text = re.sub(r"^\s*#.*$", "", ALERTS.read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"\blakerunner_\w+", text))
    known = {name for file in SOURCES for name in re.findall(r"lakerunner_\w+", (ROOT / file).read_text())}
    assert len(named) > 8
    assert named - {"lakerunner_index_up"} <= known

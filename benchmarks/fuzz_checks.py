"""Mutated payloads go straight through opening and checking, ten times as many as through HTTP.

`python -m benchmarks.fuzz_checks [--cases N] [--seed S] [--resume FILE]`. The cases are those of
`benchmarks.fuzz_receivers` without headers; an exception that no answer is made of is a failure.
"""

from __future__ import annotations

import argparse
import base64
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fuzz_receivers import JSON, PROTOBUF, Good, append, done_batches, good_requests, make_case
from benchmarks.report import Record, tell
from lakerunner_ingress.errors import IngressError
from lakerunner_ingress.notifications.pipeline import parse
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.aws import parse_aws
from lakerunner_ingress.notifications.shapes.azure import parse_azure, validation_code
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from lakerunner_ingress.receivers import loki, remote_write
from lakerunner_ingress.receivers.check import check_opened
from lakerunner_ingress.receivers.forms import Form, Push, TimeBounds
from lakerunner_ingress.receivers.memory import Memory
from lakerunner_ingress.receivers.opening import open_body
from resources.lake.layout import Signal
from resources.notifications.events import MalformedMessageError

BATCH = 50_000
MOST = 1 << 26
TIMES = TimeBounds(1_735_689_600 * 10**9, 2_000_000_000 * 10**9)
SHAPES: dict[str, Shape] = {"s3": parse_aws, "gcs": parse_gcs, "azure": parse_azure}


def push_of(path: str, media: str, encoding: str) -> Push:
    """Describe a push as its route would."""
    if path == "/api/v1/write":
        return Push(Signal.METRICS, Form.REMOTE_WRITE, encoding, remote_write.message_of(media))
    if path == "/loki/api/v1/push":
        return Push(Signal.LOGS, Form.LOKI_PUSH, encoding, loki.JSON if media == JSON else "", TIMES)
    form = Form.OTLP_PROTOBUF if media == PROTOBUF else Form.OTLP_JSON
    return Push(Signal(path.rpartition("/")[2]), form, encoding)


def check(path: str, media: str, encoding: str, body: bytes) -> str:
    """Open and check one body; return what became of it."""
    if path.startswith("/api/v1/notifications/"):
        try:
            validation_code(body)
            parse(body, "fuzz", SHAPES[path.rpartition("/")[2]])
        except MalformedMessageError:
            return "refused"
        return "taken"
    with Memory(1 << 28).hold("acme") as hold:
        try:
            push = push_of(path, media, encoding)
            check_opened(open_body(body, encoding, MOST, hold), push, hold)
        except IngressError as error:
            return error.code
    return "taken"


def run(goods: list[Good], seed: int, batch: int, cases: int) -> tuple[Counter[str], list[dict[str, Any]]]:
    rng, found, failures = random.Random(f"checks/{seed}/{batch}"), Counter[str](), []
    bodies = [good.body for good in goods]
    for _ in range(cases):
        case = make_case(goods, bodies, rng, plain=True)
        media, encoding = case.headers["content-type"], case.headers.get("content-encoding", "")
        try:
            found[check(case.path, media, encoding, case.body)] += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            found["failed"] += 1
            body = base64.b64encode(case.body).decode()
            failures.append({"path": case.path, "headers": case.headers, "body": body, "text": repr(error)})
    return found, failures


def fuzz(seed: int, cases: int, resume: Path | None, log: Callable[[str], None]) -> Record:
    """Run batches until there are as many cases as asked for."""
    done = done_batches(resume, seed)
    total, failed, answers = 0, 0, Counter[str]()
    for line in done:
        total, failed = total + line["cases"], failed + len(line["failures"])
        answers.update(line["answers"])
    goods, began, batch = good_requests(), time.monotonic(), len(done)
    while total < cases:
        size = min(BATCH, cases - total)
        found, failures = run(goods, seed, batch, size)
        if resume:
            line = {"seed": seed, "batch": batch, "cases": size, "answers": found, "failures": failures}
            append(resume, line)
        for failure in failures[:3]:
            log(f"FAILURE {failure['path']}: {failure['text'][:300]}")
        total, batch, failed = total + size, batch + 1, failed + len(failures)
        answers.update(found)
    counters: dict[str, Any] = dict(answers) | {"cases": total, "seed": seed}
    counters["seconds of this run"] = round(time.monotonic() - began)
    return Record("checks", "failures", failed, "cases", must=0, ok=failed == 0, counters=counters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50,000 cases")
    parser.add_argument("--cases", type=int, default=4_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="file of batches that are done, and of failures")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    record = fuzz(args.seed, 50_000 if args.quick else args.cases, args.resume, print)
    tell("fuzz_checks", [record], args.json)
    raise SystemExit(not record.ok)


if __name__ == "__main__":
    main()

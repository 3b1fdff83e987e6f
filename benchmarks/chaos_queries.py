"""Log queries through HTTP while everything dies: what succeeds must be whole, and nothing fails for long.

A query that succeeds has every row that was published before it began, and no row twice. One that fails is
asked again, as clients do; a failure that lasts is counted unless the query API itself was killed.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.traffic import ROWS, Traffic
from resources.settings import Settings

LIMIT = 50_000
PATIENCE_S = 90.0
"""Of one question; a killed stack needs a minute to come back on a busy machine."""
PAUSE_S = 1.0
BROKEN = (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError)
AGAIN = frozenset({429, 502, 503, 504})
"""Answers that say: try again."""


@dataclass(frozen=True, slots=True)
class Question:
    org: str
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Findings:
    asked: int = 0
    whole: int = 0
    rows: int = 0
    slowest_s: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    """Every failed attempt, by kind."""
    explained: int = 0
    """Questions that were given up because the API was away."""
    unexplained: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Asker:
    """Asks about all rows of one organisation after the other until it is told to stop."""

    traffic: Traffic
    settings: Callable[[], Settings]
    """Ports may be others after a restart."""
    start_ns: int
    api_killed_at: list[float]
    """When the query API was among the killed; appended by others."""
    findings: Findings = field(default_factory=Findings)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        number = 0
        try:
            while not stop.is_set():
                self.ask(self.traffic.orgs[number % len(self.traffic.orgs)])
                number += 1
                stop.wait(PAUSE_S)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self.failures.append(error)

    def ask(self, org: str) -> None:
        """One question, repeated until it is answered."""
        found = self.findings
        found.asked += 1
        began, errors = time.monotonic(), Counter[str]()
        while True:
            published = self._published(org)
            if published is not None:
                attempt = time.monotonic()
                lines = self._lines(Question(org, self.start_ns, time.time_ns() + 60 * 10**9), errors)
                if lines is not None:
                    found.slowest_s = max(found.slowest_s, time.monotonic() - attempt)
                    found.failures += errors
                    self._judge(org, published, lines)
                    return
            else:
                errors["the index was away"] += 1
            if time.monotonic() - began > PATIENCE_S:
                break
            time.sleep(0.5)
        found.failures += errors
        if any(killed >= began - 5 for killed in self.api_killed_at):
            found.explained += 1
        else:
            self._note(found.unexplained, f"{org}: {dict(errors)} for {PATIENCE_S:.0f} s")

    def _judge(self, org: str, published: set[int], lines: list[str]) -> None:
        found = self.findings
        seen = Counter(lines)
        twice = [line for line, count in seen.items() if count > 1]
        by_object = Counter(int(line.rsplit(" ", 1)[1]) for line in seen)
        short = {n: by_object[n] for n in published if by_object[n] != ROWS}
        found.whole += not twice and not short
        found.rows += len(lines)
        moment = time.strftime("%H:%M:%S")
        if twice:
            self._note(found.doubled, f"{moment} {org}: {len(twice)} rows, e.g. {twice[0]!r}")
        if short:
            self._note(found.short, f"{moment} {org}: object → rows of {ROWS} found: {short}")

    def _note(self, where: list[str], text: str) -> None:
        """Said at once too, since the stack may tell more about it now than in the end."""
        print(f"query: {text}", flush=True)
        where.append(text)

    def _published(self, org: str) -> set[int] | None:
        """Numbers of the objects whose rows are published now; None if the index does not say."""
        try:
            with psycopg.connect(self.settings().index_dsn, connect_timeout=3) as connection:
                done = connection.execute(
                    "SELECT key FROM lakerunner.raw_object "
                    "WHERE state = 'done' AND signal = 'logs' AND org_id = %s",
                    (org,),
                ).fetchall()
        except psycopg.OperationalError:
            return None
        names = [key.rsplit("/", 1)[1] for (key,) in done]
        return {int(name.rsplit("-", 1)[1].split(".")[0]) for name in names if self.traffic.service in name}

    def _lines(self, question: Question, errors: Counter[str]) -> list[str] | None:
        """None after an error that may pass; whole answers only."""
        try:
            body = self._answer(question)
        except urllib.error.HTTPError as error:
            text = error.read(2000).decode(errors="replace")
            errors[f"{error.code} {_code(text)}"] += 1
            if error.code not in AGAIN:
                self._note(self.findings.unexplained, f"{question.org}: {error.code}: {text[:500]}")
            return None
        except BROKEN as error:
            errors[type(getattr(error, "reason", error)).__name__] += 1
            return None
        if body.get("warnings"):
            errors[f"warned: {body['warnings'][0][:120]}"] += 1
            return None
        return [value[1] for stream in body["data"]["result"] for value in stream["values"]]

    def _answer(self, question: Question) -> dict[str, Any]:
        settings = self.settings()
        values = {
            "query": f'{{service_name="{self.traffic.service}"}}',
            "limit": LIMIT,
            "start": question.start_ns,
            "end": question.end_ns,
        }
        request = urllib.request.Request(
            f"http://{settings.query_host}:{settings.query_port}/loki/api/v1/query_range?"
            + urllib.parse.urlencode(values),
            headers={"x-cardinalhq-api-key": self.traffic.keys[question.org]},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def _code(text: str) -> str:
    try:
        body = json.loads(text)
    except json.JSONDecodeError:
        return text[:60]
    return (
        str(body.get("code") or body.get("errorType") or text[:60]) if isinstance(body, dict) else text[:60]
    )

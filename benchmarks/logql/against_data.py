"""Seeded log lines in the shapes that stages read: JSON, logfmt, plain and broken ones, some with metadata.

    {app="web", env="prod"}  10:00:00.017  {"level":"info","status":200,"took":"17ms",…}
    {app="api", env="dev"}   10:00:00.031  level=error method=GET status=500 took=1.5s size=3KB
    {app="db", env="prod"}   10:00:00.044  10.0.3.7 - GET /x error a b status=404   metadata pod="db-1"

Every time is there once, so that no answer depends on the order of ties.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.logql.fuzz_queries import Words

START_NS = 1_768_471_200_000_000_000
"""2026-01-15T10:00:00Z."""
SPAN_NS = 600 * 10**9
LEVELS = ("info", "info", "warn", "error")
METHODS = ("GET", "POST", "PUT")
STATUSES = (200, 200, 200, 404, 500)
TOOK = ("17ms", "250ms", "1s", "1.5s", "1m30s", "0", "oops", "2h", "300us")
SIZES = ("5B", "1KB", "3kb", "42MB", "1.5GB", "12", "1 KiB", "big")
LOGHUB = ("Apache", "OpenSSH", "Linux")

WORDS = Words(
    streams={"app": ("web", "api", "db"), "env": ("prod", "dev")},
    texts=("error", "GET", "a b", "=", "", "status", '"level"', "10.0.", "é"),
    line_patterns=("<_> error <_>", "level=<_>", "<_>GET<_>", '<_>"status":<_>', "<_> - <_>"),
    addresses=("10.0.0.0/8", "10.0.3.7", "10.0.0.1-10.0.2.255", "fe80::/10"),
    fields={
        "level": ("info", "error", "warn", ""),
        "method": ("GET", "POST"),
        "status": ("200", "500", "404"),
        "pod": ("web-1", "db-1"),
        "tier": ("stdout", ""),
        "user_name": ("ann", "bob"),
    },
    numbers=("status", "n"),
    parsers=(
        *("json", "json", "logfmt", "logfmt", "logfmt --strict", "logfmt --keep-empty", "unpack"),
        *('json status, who="user.name"', 'json first="tags[0]", took', 'logfmt level, t="took"'),
        *("regexp `status=(?P<status>\\d+)`", "regexp `(?P<addr>[0-9.]+) - (?P<method>\\w+)`"),
        *('pattern "<addr> - <method> <path> <_>"', 'pattern "level=<level> <_>"'),
    ),
    templates=("{{.level}}", "{{ .app | ToUpper }}-{{.n}}", "{{__line__}}", "x", "{{ .status }} {{ .took }}",
               "{{ if .level }}{{ .level | trunc 2 }}{{ else }}none{{ end }}", "{{ .nosuch }}"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    labels: tuple[tuple[str, str], ...]
    time_ns: int
    text: str
    metadata: tuple[tuple[str, str], ...] = ()


def generated(seed: int, count: int = 1500) -> list[Line]:
    """Lines in order of time."""
    chance = random.Random(seed)
    step = SPAN_NS // count
    return [_line(chance, START_NS + number * step + chance.randrange(1, step)) for number in range(count)]


def of_loghub(folder: Path, each: int = 300) -> Iterator[Line]:
    """The first lines of some systems, one every 1.9 s; none if the folder is not there."""
    for place, name in enumerate(LOGHUB):
        path = folder / f"{name}_2k.log"
        texts = path.read_text(errors="replace").splitlines()[:each] if path.exists() else []
        labels = (("app", "loghub"), ("system", name))
        for number, text in enumerate(texts):
            yield Line(labels, START_NS + number * 1_900_000_007 + place, text)


def _line(chance: random.Random, time_ns: int) -> Line:
    app = chance.choice(("web", "api", "db"))
    labels = (("app", app), ("env", chance.choice(("prod", "dev"))))
    metadata = (("pod", f"{app}-{chance.randrange(1, 3)}"),) if chance.random() < 0.5 else ()
    if chance.random() < 0.1:
        metadata += (("tier", "stdout"),)
    return Line(labels, time_ns, _TEXTS[app](chance), metadata)


def _json(chance: random.Random) -> str:
    fields: dict[str, object] = {
        "level": chance.choice(LEVELS), "method": chance.choice(METHODS), "status": chance.choice(STATUSES),
        "took": chance.choice(TOOK), "size": chance.choice(SIZES), "n": round(chance.uniform(-5, 50), 2),
        "user": {"name": chance.choice(("ann", "bob", "é\n")), "ip": f"10.0.{chance.randrange(5)}.7"},
        "tags": ["first", "x"], "app": "inner", "ok": chance.random() < 0.5, "none": None,
    }  # fmt: skip
    for name in chance.sample(sorted(fields), chance.randrange(5)):
        del fields[name]
    text = json.dumps(fields, ensure_ascii=chance.random() < 0.5)
    return text[:-3] if chance.random() < 0.05 else text


def _logfmt(chance: random.Random) -> str:
    pairs = [
        f"level={chance.choice(LEVELS)}", f"method={chance.choice(METHODS)}", f"took={chance.choice(TOOK)}",
        f"status={chance.choice(STATUSES)}", f"size={chance.choice(SIZES)}", f"n={chance.randrange(100)}",
        'msg="a \\"b\\" c"', "empty=", "alone", "app=other", f"addr=10.0.{chance.randrange(5)}.7",
    ]  # fmt: skip
    chosen = [pair for pair in pairs if chance.random() < 0.8]
    return " ".join(chosen) + (' broken="x' if chance.random() < 0.05 else "")


def _plain(chance: random.Random) -> str:
    address = f"10.0.{chance.randrange(5)}.{chance.randrange(9)}"
    colour = "\x1b[31merror\x1b[0m" if chance.random() < 0.3 else chance.choice(("error", "fine", "a b"))
    request = f"{chance.choice(METHODS)} /x{chance.randrange(3)}"
    return f"{address} - {request} {colour} status={chance.choice(STATUSES)}"


_TEXTS: dict[str, Callable[[random.Random], str]] = {"web": _json, "api": _logfmt, "db": _plain}

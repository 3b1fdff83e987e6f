"""This module alone spells and parses object keys.

Raw objects arrive under `otel-raw/…` or `{signal}-raw/…` (or a mapped prefix); segments are written under
`db/…`. A path that does not match is rejected with a reason and never cleaned up: guessing would put one
organisation's data under another.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from resources.lake.timecut import dateint, from_datetime, hour_of_day

NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,62}$")
DEFAULT_COLLECTOR = "default"
RULER = "ruler"
"""Collector of the series of alerts."""
LAKE_PREFIX = "db/"
SCRATCH_PREFIX = "scratch/"
"""Results of statements that Spark ran; they are deleted an hour later."""
TABLES_PREFIX = "tables/"
"""Metadata of open tables; their data are the segments."""
MAX_KEY_BYTES = 1024
YEARS = range(1970, 2100)
"""Years of arrival hours. Nanoseconds beyond a bigint would fail the transaction of every later tick."""
_DATED = re.compile(r"^(\d{4})/(\d{2})/(\d{2})/(\d{2})/(.+)$")


class Signal(StrEnum):
    LOGS = "logs"
    METRICS = "metrics"
    TRACES = "traces"


class InvalidKeyError(ValueError):
    """The key does not name its content; the message says what was expected."""


class IgnoredKeyError(ValueError):
    """The key is deliberately no telemetry: a folder marker, or one of our own segments."""


@dataclass(frozen=True, slots=True)
class PrefixMapping:
    """A row of `bucket_prefix_mapping`: keys under `prefix` belong to this organisation and signal."""

    bucket: str
    prefix: str
    org: str
    collector: str
    signal: Signal | None


@dataclass(frozen=True, slots=True)
class RawKey:
    org: str
    collector: str
    signal: Signal
    hour_ns: int | None
    """Start of the arrival hour when the key carries a date, else None (use the object's LastModified)."""


def parse_raw_key(bucket: str, key: str, mappings: Iterable[PrefixMapping] = ()) -> RawKey:
    """Parse the key of a raw object.

    >>> parse_raw_key("b", "otel-raw/acme/eu/logs/2026/01/02/03/a.binpb.gz").collector
    'eu'
    >>> parse_raw_key("b", "logs-raw/acme/a.binpb").hour_ns is None
    True
    """
    _reject_odd_paths(key)
    if key.endswith("/") or key.startswith((LAKE_PREFIX, SCRATCH_PREFIX, TABLES_PREFIX)):
        raise IgnoredKeyError(f"{key!r} is a folder or a segment of the lake, not a raw object")
    mapping = _longest(bucket, key, mappings)
    if mapping is not None:
        rest = key[len(mapping.prefix) :].lstrip("/")
        return RawKey(mapping.org, mapping.collector, mapping.signal or _signal_of_file(key), _hour(rest))
    head, _, rest = key.partition("/")
    if head == "otel-raw":
        return _parse_otel(key, rest)
    if head in {f"{signal.value}-raw" for signal in Signal}:
        org, _, tail = rest.partition("/")
        if not tail:
            raise InvalidKeyError(f"{key!r}: expected {head}/ORG/NAME")
        return RawKey(_name(key, "organisation", org), DEFAULT_COLLECTOR, Signal(head[:-4]), _hour(tail))
    raise InvalidKeyError(f"{key!r}: unknown prefix {head!r} and no row of bucket_prefix_mapping matches")


def raw_key(org: str, collector: str, signal: Signal, arrived: dt.datetime, name: str) -> str:
    """Spell the key under which our receivers and generators put a raw object."""
    moment = arrived.astimezone(dt.UTC)
    return f"otel-raw/{org}/{collector}/{signal.value}/{moment:%Y/%m/%d/%H}/{name}"


def raw_prefixes(org: str) -> tuple[str, ...]:
    """Return every standard prefix under which raw objects of `org` may lie."""
    return (f"otel-raw/{org}/", *(f"{signal.value}-raw/{org}/" for signal in Signal))


def segment_key(
    org: str, collector: str, dataset: str, start_ns: int, hour: int | None, segment_id: str
) -> str:
    """Spell `db/{org}/{collector}/{dateint}/{dataset}/{hour|all}/tbl_{id}.parquet`."""
    for what, value in (("organisation", org), ("collector", collector), ("dataset", dataset)):
        _name(value, what, value)
    folder = "all" if hour is None else f"{hour:02d}"
    return f"{LAKE_PREFIX}{org}/{collector}/{dateint(start_ns)}/{dataset}/{folder}/tbl_{segment_id}.parquet"


def hourly_segment_key(org: str, collector: str, dataset: str, hour_ns: int, segment_id: str) -> str:
    return segment_key(org, collector, dataset, hour_ns, hour_of_day(hour_ns), segment_id)


def table_prefix(org: str, name: str) -> str:
    """Spell the folder of an open table's metadata.

    >>> table_prefix("acme", "metrics_10s")
    'tables/acme/metrics_10s/'
    """
    return f"{TABLES_PREFIX}{_name(org, 'organisation', org)}/{_name(name, 'table', name)}/"


def query_job_prefix(org: str, job_id: str) -> str:
    """Spell the folder of a statement that was handed over to Spark.

    >>> query_job_prefix("acme", "0f3a")
    'scratch/acme/queries/0f3a/'
    """
    return f"{SCRATCH_PREFIX}{_name(org, 'organisation', org)}/queries/{_name(job_id, 'job', job_id)}/"


def query_plan_key(org: str, job_id: str) -> str:
    return f"{query_job_prefix(org, job_id)}plan.json"


def query_attempt_prefix(org: str, job_id: str, attempt: int) -> str:
    """Spell the folder of one attempt: what a fenced-off driver still writes is in nobody's way."""
    return f"{query_job_prefix(org, job_id)}{attempt}/"


def valid_name(text: str) -> bool:
    """Tell if `text` may be an organisation or collector."""
    return NAME.fullmatch(text) is not None


def _parse_otel(key: str, rest: str) -> RawKey:
    parts = rest.split("/", 3)
    if len(parts) < 3:
        raise InvalidKeyError(f"{key!r}: expected otel-raw/ORG/COLLECTOR/SIGNAL/YYYY/MM/DD/HH/NAME")
    org, collector, signal = parts[0], parts[1], parts[2]
    if signal in set(Signal):
        if len(parts) < 4:
            raise InvalidKeyError(f"{key!r}: no object name after the signal folder")
        found, tail = Signal(signal), parts[3]
    else:
        found, tail = _signal_of_file(key), rest.split("/", 2)[2]
    return RawKey(_name(key, "organisation", org), _name(key, "collector", collector), found, _hour(tail))


def _reject_odd_paths(key: str) -> None:
    if not key or len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidKeyError(f"object key of {len(key)} characters: expected 1 to {MAX_KEY_BYTES} bytes")
    if key.startswith("/") or "\\" in key or any(ord(c) < 32 or ord(c) == 127 for c in key):
        raise InvalidKeyError(f"{key!r}: leading slash, backslash or control character")
    if any(part in {"", ".", ".."} for part in key.rstrip("/").split("/")):
        raise InvalidKeyError(f"{key!r}: empty, '.' or '..' path part")


def _longest(bucket: str, key: str, mappings: Iterable[PrefixMapping]) -> PrefixMapping | None:
    """Match at path parts only: what is mapped for `tenant1` says nothing about `tenant10/…`."""
    matching = [m for m in mappings if m.bucket == bucket and key.startswith(f"{m.prefix.rstrip('/')}/")]
    return max(matching, key=lambda m: len(m.prefix), default=None)


def _signal_of_file(key: str) -> Signal:
    stem = key.rsplit("/", 1)[-1].split("_", 1)[0]
    if stem in set(Signal):
        return Signal(stem)
    raise InvalidKeyError(
        f"{key!r}: no signal folder and the file name does not start with logs_, metrics_ or traces_"
    )


def _name(key: str, what: str, text: str) -> str:
    if not valid_name(text):
        raise InvalidKeyError(f"{key!r}: {what} {text!r} does not match {NAME.pattern}")
    return text


def _hour(tail: str) -> int | None:
    match = _DATED.match(tail)
    if match is None:
        return None
    year, month, day, hour = (int(part) for part in match.groups()[:4])
    if year not in YEARS:
        raise InvalidKeyError(f"{tail!r}: year {year}: expected {YEARS.start} to {YEARS.stop - 1}")
    try:
        moment = dt.datetime(year, month, day, hour, tzinfo=dt.UTC)
    except ValueError as error:
        raise InvalidKeyError(f"{tail!r}: the date in the key is not a real hour ({error})") from error
    return from_datetime(moment)

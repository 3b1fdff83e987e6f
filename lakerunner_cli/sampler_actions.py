"""The verbs of `lakerunner sampler` that read spans: back-test and explanation."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from shutil import get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakerunner_cli.command import CommandError
from lakerunner_cli.progress import Progress
from lakerunner_cli.query_output import bar, sparkline
from lakerunner_query.api.shared.times import moment_ns
from lakerunner_query.errors import InvalidRequestError
from lakerunner_sampling.aggregate import StateLimits
from lakerunner_sampling.backtest import BUCKETS, Report, Spans, Verdict, backtest, one_trace
from lakerunner_sampling.config import AppConfig, SamplerConfig, make_shape, read_config_file
from lakerunner_sampling.lake_shapes import shape_of
from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.documents import read_policy_file
from lakerunner_sampling.policies.hashing import t_value
from lakerunner_sampling.policies.model import DecisionMoment, LimiterMemory, PolicyError
from lakerunner_sampling.shapes import ShapeError, schema_of
from lakerunner_sampling.table_files import files_between, folders_of
from resources.settings import Settings, process_environment

if TYPE_CHECKING:
    from pyiceberg.table import Table

SECOND_NS = 10**9
BAR_WIDTH = 30
WORD_BYTES = 16
TIMEOUT_S = 10.0


def run_sampler(args: Namespace, settings: Settings) -> int:
    from lakerunner_sampling.app import serve
    from lakerunner_sampling.follower import TableError

    with _actionable():
        try:
            return serve(settings, args.config)
        except TableError as error:
            raise CommandError(str(error)) from error


def run_backtest(args: Namespace, settings: Settings) -> int:
    del settings
    with _actionable():
        config = _config(args)
        new, current = _policies(args.policies, config), None
        if args.against is not None:
            current = _policies(args.against, config)
        with _source(args, config) as (spans, limits):
            progress = Progress("files read", len(spans.files))
            report = backtest(spans, new, current, limits, lambda done, _: progress.at(done))
            progress.close()
    if args.json:
        print(json.dumps(report.to_json()))
    else:
        print("\n".join(_shown(report, with_plot=args.plot)))
    return 0


def explain(args: Namespace, settings: Settings) -> int:
    del settings
    trace_id = _trace_id(args.trace_id)
    if args.url:
        return _ask(args.url, trace_id)
    if args.policies is None:
        raise CommandError("name the policies with --policies, or a running sampler with --url")
    with _actionable():
        config = _config(args)
        policies = _policies(args.policies, config)
        with _source(args, config) as (spans, limits):
            found = one_trace(spans, policies, limits, trace_id)
    if not found.num_rows:
        raise CommandError(
            f"no span of trace {trace_id.hex()} in these files; widen --from and --to, or --files"
        )
    lines = Explanation.of(policies, found)
    print(json.dumps(lines.to_json()) if args.json else "\n".join(lines.shown()))
    return 0


def _ask(url: str, trace_id: bytes) -> int:
    """Print what a running sampler says of a trace."""
    import httpx

    address = f"{url.rstrip('/')}/decisions/{trace_id.hex()}"
    try:
        answer = httpx.get(address, timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CommandError(f"{address}: {error}; is the sampler running there?") from error
    if answer.status_code != httpx.codes.OK:
        raise CommandError(f"{address}: {answer.status_code} {answer.text.strip()}")
    print(json.dumps(answer.json(), indent=2))
    return 0


@contextmanager
def _actionable() -> Iterator[None]:
    """Turn faults that a person can correct into errors of the command."""
    try:
        yield
    except (PolicyError, ShapeError) as error:
        raise CommandError(str(error)) from error
    except pa.ArrowInvalid as error:
        raise CommandError(f"a file is no Parquet with spans: {error}") from error


def _trace_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError as error:
        raise CommandError(f"{text!r} is no trace id: expected 32 hexadecimal digits") from error
    if len(found) != WORD_BYTES:
        raise CommandError(f"{text!r} is no trace id: expected 32 hexadecimal digits")
    return found


def _config(args: Namespace) -> SamplerConfig | None:
    return None if args.config is None else read_config_file(args.config, process_environment())


def _policies(path: Path, config: SamplerConfig | None) -> PolicySet:
    """Read policies from a policy file or a sampler's configuration; tell what has no effect."""
    environment = process_environment()
    text = path.read_bytes() if path.is_file() else b""
    if any(line.startswith(b"storage:") for line in text.splitlines()):
        own = read_config_file(path, environment)
        document, app = own.policies, own.app
    else:
        document, app = read_policy_file(path, environment), config.app if config else AppConfig()
    for note in document.notes:
        print(f"note: {path}: {note}", file=sys.stderr)
    return document.policy_set(app.uses_tracestate, app.inverted_decisions)


@contextmanager
def _source(args: Namespace, config: SamplerConfig | None) -> Iterator[tuple[Spans, StateLimits]]:
    """Find the spans, and make room for reading them."""
    if bool(args.files) == bool(args.config):
        raise CommandError("say where the spans are: --files GLOB, or --config FILE with the table")
    inactivity = args.inactivity or (config.app.inactivity_s if config else 300.0)
    longest = config.app.max_duration_s if config else 3600.0
    now = time.time_ns()
    start = _moment(args.start, now) if args.start else None
    end = _moment(args.end, now) if args.end else now if args.start else None
    if start is not None and end is not None and start >= end:
        raise CommandError("--from must lie before --to")
    with TemporaryDirectory(prefix="lakerunner-sampler-") as scratch:
        spans = _found(args, config, start, end, round(longest * SECOND_NS))
        readable = tuple(map(Path, sorted(folders_of(spans.files))))
        yield spans, StateLimits(
            Path(scratch), round(inactivity * SECOND_NS), round(longest * SECOND_NS),
            config.app.max_spans if config else 1_000_000, args.memory_mb, readable=readable,
        )  # fmt: skip


def _moment(text: str, now: int) -> int:
    try:
        return moment_ns(text, now)
    except InvalidRequestError as error:
        raise CommandError(str(error)) from error


def _found(
    args: Namespace, config: SamplerConfig | None, start: int | None, end: int | None, around_ns: int
) -> Spans:
    if args.files:
        files = _matching(args.files)
        if not files:
            raise CommandError(f"no file matches {args.files}")
        shape = make_shape(args.shape) if args.shape else shape_of(schema_of(files[:1]))
        return Spans(files, shape, start, end)
    if config is None or start is None or end is None:
        raise CommandError("a table needs a window: give --from, and --to unless it is now")
    table = _table(args.table or f"{config.table.namespace}.{config.table.table}", config)
    found = files_between(table, start - around_ns, end + around_ns)
    if not found.files:
        raise CommandError("the table has no files in this window")
    shape = make_shape(args.shape or config.table.shape, found.source)
    return Spans(found.files, shape, start, end, found.schema, found.source)


def _matching(pattern: str) -> list[str]:
    """Return the files of a pattern, which `Path.glob` would refuse where it is absolute."""
    found = map(Path, glob(pattern, recursive=True))  # noqa: PTH207
    return sorted(str(each.absolute()) for each in found if each.is_file())


def _table(name: str, config: SamplerConfig) -> Table:
    from pyiceberg.exceptions import NoSuchTableError

    from lakerunner_sampling.follower import open_catalog

    try:
        return open_catalog(config.table.catalog, config.table.properties).load_table(name)
    except NoSuchTableError as error:
        raise CommandError(
            f"the catalog has no table {name}: name it as NAMESPACE.TABLE with --table"
        ) from error
    except Exception as error:
        raise CommandError(
            f"the catalog cannot be read: {error}; check storage in the configuration"
        ) from error


def _shown(report: Report, *, with_plot: bool) -> Iterator[str]:
    yield f"window   {_time(report.from_ns)} to {_time(report.to_ns)}"
    yield from _verdict("", report.new)
    if report.current is not None and report.confusion is not None:
        yield ""
        yield "against the current policies:"
        yield from _verdict("  ", report.current)
        counts = report.confusion
        yield ""
        yield f"{'':18}{'current keeps':>16}{'current drops':>16}"
        yield f"{'new keeps':18}{counts.both:>16,}{counts.only_new:>16,}"
        yield f"{'new drops':18}{counts.only_current:>16,}{counts.neither:>16,}"
        for current, new, count in counts.reasons[:10]:
            yield f"  {count:>10,}  {current}  →  {new}"
    if with_plot:
        yield ""
        yield from _plot("new", report.new)
        if report.current is not None:
            yield from _plot("current", report.current)


def _verdict(margin: str, verdict: Verdict) -> Iterator[str]:
    share = verdict.kept_traces / verdict.traces if verdict.traces else 0.0
    spans = verdict.kept_spans / verdict.spans if verdict.spans else 0.0
    yield f"{margin}traces   {verdict.kept_traces:,} of {verdict.traces:,} kept ({share:.2%})"
    yield (
        f"{margin}spans    {verdict.kept_spans:,} of {verdict.spans:,} kept ({spans:.2%}), "
        f"{verdict.kept_spans_per_day:,} a day"
    )
    if verdict.kept_bytes_per_day is not None:
        yield f"{margin}bytes    {verdict.kept_bytes_per_day:,} a day, estimated as OTLP"
    yield (
        f"{margin}counts   the kept traces stand for {verdict.estimated_traces:,.0f} "
        f"± {1.96 * verdict.estimate_error:,.0f} (95 %); there were {verdict.traces:,}"
    )
    width = max((len(each.policy) for each in verdict.policies), default=0)
    most = max((each.traces for each in verdict.policies), default=0)
    for each in verdict.policies:
        what = "kept" if each.kept else "dropped" if each.policy else "no match"
        drawn = bar(each.traces, most, BAR_WIDTH)
        counts = f"{each.traces:>12,} traces {each.spans:>14,} spans"
        yield f"{margin}  {each.policy:<{width}}  {what:<8} {counts}  {drawn}"


def _plot(name: str, verdict: Verdict) -> Iterator[str]:
    points = [(at / SECOND_NS, share) for at, share in verdict.kept_share]
    if not points:
        return
    width = max(min(get_terminal_size((BUCKETS + 40, 24)).columns - 40, BUCKETS), 10)
    shares = [share for _, share in points]
    line = sparkline(points, points[0][0], points[-1][0], width)
    yield f"share of traces kept, {name:<8} {line}  {min(shares):.2%} to {max(shares):.2%}"


def _time(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / SECOND_NS, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A trace, the votes of all policies on it, and the decision."""

    trace: dict[str, Any]
    decision: dict[str, Any]
    votes: list[dict[str, Any]]

    @classmethod
    def of(cls, policies: PolicySet, found: pa.Table) -> Explanation:
        moment = DecisionMoment(int(found.column("last_ns")[0].as_py()))
        votes = policies.votes(found, moment, LimiterMemory())
        decision = policies.decide(found, moment, LimiterMemory()).table.to_pylist()[0]
        named = {"span_count", "first_ns", "last_ns", "roots", "first_seq", "last_seq"}
        trace = {name: value for name, value in found.to_pylist()[0].items() if name in named}
        decision["trace_id"] = decision["trace_id"].hex()
        decision["th"] = t_value(decision.pop("threshold"))
        return cls(trace, decision, votes)

    def to_json(self) -> dict[str, Any]:
        return {"trace": self.trace, "decision": self.decision, "votes": self.votes}

    def shown(self) -> Iterator[str]:
        trace, decision = self.trace, self.decision
        took = (trace["last_ns"] - trace["first_ns"]) / SECOND_NS
        yield (
            f"trace {decision['trace_id']}: {trace['span_count']:,} spans, {trace['roots']} roots, "
            f"{took:.3f} s from {_time(trace['first_ns'])}"
        )
        yield f"{decision['reason']} (probability {decision['probability']:.6g}, th {decision['th']})"
        for vote in self.votes:
            indent = "  " * (1 + vote["depth"])
            yield f"{indent}{vote['name']} ({vote['type']}): {'keeps' if vote['keeps'] else 'does not keep'}"
        yield "limits and learned rates are shown as a sampler just started would have them"

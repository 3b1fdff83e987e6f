"""The demo's parts: a shop that repeats itself, telemetry that decodes, a view that fits its stream."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from lakerunner_cli.command import CommandError
from lakerunner_cli.demo import generator as generating
from lakerunner_cli.demo import standing
from lakerunner_cli.demo.calls import requests_of_second, took_ns
from lakerunner_cli.demo.generator import Generator, Output
from lakerunner_cli.demo.measurements import Totals
from lakerunner_cli.demo.otlp import pack, pack_spans
from lakerunner_cli.demo.shop import BURST, SERVICES, Line, lines_of_second
from lakerunner_cli.demo.story import Times, closing_lines
from lakerunner_cli.demo.watch import Screen, Snapshot, block, line, newest_lines
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.upload import Destination
from lakerunner_cli.webhook import NewObject, Outcome
from resources.lake.layout import Signal, parse_raw_key
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.patience import PATIENCE_S

SERVER, CLIENT = Span.SpanKind.SPAN_KIND_SERVER, Span.SpanKind.SPAN_KIND_CLIENT
CALM, BURSTING = 1_700_000_040, 1_700_000_070  # :00 and :30 of a minute


def test_the_same_seed_and_second_give_the_same_lines() -> None:
    assert lines_of_second(7, CALM) == lines_of_second(7, CALM)
    assert lines_of_second(7, CALM) != lines_of_second(8, CALM)
    assert lines_of_second(7, CALM) != lines_of_second(7, CALM + 1)


def test_every_service_speaks_in_time_order_within_the_second() -> None:
    lines = lines_of_second(7, CALM)
    times = [each.time_ns for each in lines]
    assert {each.service for each in lines} == set(SERVICES)
    assert times == sorted(times)
    assert CALM * 10**9 <= times[0] <= times[-1] < (CALM + 1) * 10**9


def test_the_burst_is_in_payment_and_checkout_and_passes() -> None:
    assert (CALM % 60 in BURST, BURSTING % 60 in BURST) == (False, True)
    errors = {
        s: Counter(x.service for x in lines_of_second(7, s) if x.severity == "ERROR")
        for s in (CALM, BURSTING)
    }
    assert errors[CALM]["payment"] == errors[CALM]["checkout"] == 0
    assert errors[BURSTING]["payment"] > 0
    assert errors[BURSTING]["checkout"] > 0


def test_packed_lines_decode_to_what_was_said() -> None:
    lines = lines_of_second(7, BURSTING)
    request = ExportLogsServiceRequest.FromString(gzip.decompress(pack(lines)))
    found = {
        (
            resource.resource.attributes[0].value.string_value,
            r.time_unix_nano,
            r.body.string_value,
            r.severity_text,
        )
        for resource in request.resource_logs
        for scope in resource.scope_logs
        for r in scope.log_records
    }
    assert found == {(x.service, x.time_ns, x.body, x.severity) for x in lines}


def spans_of(lines: list[Line]) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(gzip.decompress(pack_spans(lines)))
    return [s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]


@pytest.mark.parametrize("second", [CALM, BURSTING])
def test_every_line_has_a_span_of_its_ids_that_ends_with_it(second: int) -> None:
    lines = requests_of_second(7, second)
    spans = spans_of(lines)
    assert {(s.trace_id, s.span_id, s.end_time_unix_nano) for s in spans if s.kind == SERVER} == {
        (x.trace_id, x.span_id, x.time_ns) for x in lines
    }
    assert all(s.start_time_unix_nano < s.end_time_unix_nano for s in spans)


@pytest.mark.parametrize("second", [CALM, BURSTING])
def test_requests_are_whole_traces_within_their_roots(second: int) -> None:
    lines = requests_of_second(7, second)
    assert sorted(lines, key=lambda one: one.time_ns) == lines
    assert {one.time_ns // 10**9 for one in lines} == {second}
    assert Counter(one.body for one in lines) == Counter(one.body for one in lines_of_second(7, second))
    spans = {one.span_id: one for one in spans_of(lines)}
    for span in spans.values():
        if not span.parent_span_id:
            continue
        parent = spans[span.parent_span_id]
        assert span.trace_id == parent.trace_id
        assert {span.kind, parent.kind} == {SERVER, CLIENT}
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
    assert {one.trace_id for one in lines} == {s.trace_id for s in spans.values() if not s.parent_span_id}


def test_a_failing_payment_fails_its_page() -> None:
    lines = {one.span_id: one for one in requests_of_second(7, BURSTING)}
    failing = [one for one in lines.values() if one.service == "payment" and one.severity == "ERROR"]
    assert failing
    for one in failing:
        checkout = lines[one.caller]
        page = lines[checkout.caller]
        assert (checkout.service, page.service) == ("checkout", "frontend")
        assert (checkout.severity, page.severity) == ("ERROR", "ERROR")
        assert took_ns(page) > took_ns(one) >= 3_000_000_000


def test_the_slowest_request_of_an_export_is_an_exemplar() -> None:
    totals, lines = Totals(1), requests_of_second(7, CALM)
    totals.observe(lines)
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(totals.pack(CALM)))
    metrics = [m for r in request.resource_metrics for scope in r.scope_metrics for m in scope.metrics]
    found = {e.span_id for m in metrics for p in m.histogram.data_points for e in p.exemplars}
    slowest = [max((x for x in lines if x.service == name), key=took_ns).span_id for name in SERVICES]
    assert found == set(slowest)
    assert totals.slowest == {}


def test_counts_only_grow_and_add_up_to_the_lines() -> None:
    totals = Totals(1)
    seen = []
    for second in (CALM, CALM + 1):
        lines = lines_of_second(7, second)
        totals.observe(lines)
        seen.append(len(lines))
        request = ExportMetricsServiceRequest.FromString(gzip.decompress(totals.pack(second)))
        metrics = [m for r in request.resource_metrics for scope in r.scope_metrics for m in scope.metrics]
        assert sum(p.as_int for m in metrics for p in m.sum.data_points) == sum(seen)
        assert sum(p.count for m in metrics for p in m.histogram.data_points) == sum(seen)
        assert all(sum(p.bucket_counts) == p.count for m in metrics for p in m.histogram.data_points)


def test_spans_and_metrics_are_written_every_few_seconds(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []

    def here(objects: Sequence[NewObject], settings: Settings) -> Outcome:
        keys.extend(each.key for each in objects)
        return Outcome(accepted=len(objects))

    monkeypatch.setattr(generating, "notify", here)
    for second in range(CALM, CALM + 2 * generating.OTHERS_EVERY_S):
        generator._tick(second)
    signals = Counter(parse_raw_key("raw", key).signal.value for key in keys)
    assert signals == {"logs": 10, "traces": 2, "metrics": 2}


@pytest.fixture
def generator(tmp_path: Path) -> Generator:
    store = open_store(f"file://{tmp_path}", Settings())
    return Generator(Destination(store, "raw", "demo", "shop", Signal.LOGS), Settings(), 7)


def test_what_could_not_be_announced_is_announced_with_the_next(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[str] = []

    def away(objects: Sequence[NewObject], settings: Settings) -> Outcome:
        raise CommandError("the ingress is away")

    def here(objects: Sequence[NewObject], settings: Settings) -> Outcome:
        announced.extend(each.key for each in objects)
        return Outcome(accepted=len(objects))

    monkeypatch.setattr(generating, "notify", away)
    generator._tick(CALM + 1)
    assert (generator.output.problem, generator.output.waiting) == ("the ingress is away", 1)
    monkeypatch.setattr(generating, "notify", here)
    generator._tick(CALM + 2)
    assert (generator.output.problem, generator.output.waiting, generator.output.objects) == ("", 0, 2)
    assert len(announced) == 2
    assert {parse_raw_key("raw", key).org for key in announced} == {"demo"}


def test_the_newest_lines_of_an_answer_come_first() -> None:
    streams = [
        {"values": [["3000000000", "c"], ["1000000000", "a"]]},
        {"values": [["2000000000", "b\nmore"]]},
    ]
    assert newest_lines({"data": {"result": streams}}) == ("00:00:03  c", "00:00:02  b", "00:00:01  a")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


MADE = Output(12, 1900, 130_000)
SEEN = Snapshot(
    rows=1500, pending_objects=3, freshness_s=8.25, answer=("12:00:00  order 1 placed",), answer_ms=21.0
)


def test_a_terminal_is_redrawn_in_place() -> None:
    terminal = Terminal()
    screen = Screen(60, terminal)
    screen.show(10, MADE, SEEN)
    screen.show(11, MADE, SEEN)
    rows = len(block(11, 60, MADE, SEEN))
    assert terminal.getvalue().count(f"\033[{rows}F") == 1


def test_without_a_terminal_there_are_plain_lines_now_and_then() -> None:
    stream = io.StringIO()
    screen = Screen(60, stream)
    screen.show(10, MADE, SEEN)
    screen.show(11, MADE, SEEN)
    assert stream.getvalue() == line(10, MADE, SEEN) + "\n"
    assert "\033" not in stream.getvalue()
    assert "freshness 8.2 s" in stream.getvalue()


def test_the_block_has_the_same_height_whatever_there_is_to_say() -> None:
    assert len(block(1, 60, Output(), Snapshot())) == len(block(1, 60, MADE, SEEN))
    assert "no lines yet" in "\n".join(block(1, 60, Output(), Snapshot()))


def test_the_commands_of_the_farewell_can_be_pasted() -> None:
    told = closing_lines(Settings(query_port=4999), "demo", "lr_key", Times(1, 2, 3.5))
    commands = [shlex.split(text) for text in told if text.strip().startswith("curl")]
    assert len(commands) == 5
    assert json.loads(commands[4][-1])["q"].startswith("SELECT s.service_name")
    assert all("x-cardinalhq-api-key: lr_key" in words for words in commands)
    assert commands[2][-1].startswith("query=sum by (job, level) (rate(shop_requests_total")
    assert json.loads(commands[3][-1]) == {"q": '{service_name="frontend"} |= " 502 "', "limit": 5}
    assert "first answer 3.5 s" in "\n".join(told)


def test_a_slow_shop_makes_one_second_in_ten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, ticks, waits = open_store(f"file://{tmp_path}", Settings()), list[int](), list[float]()
    slow = Generator(Destination(store, "raw", "demo", "shop", Signal.LOGS), Settings(), 7, standing.EVERY_S)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3 * standing.EVERY_S:
            slow._stopping.set()

    monkeypatch.setattr(slow, "_tick", ticks.append)
    monkeypatch.setattr(slow._stopping, "wait", wait)
    slow.run()
    assert [second % standing.EVERY_S for second in ticks] == [0, 0, 0]


def test_the_shop_goes_on_until_its_plan_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, paths = Settings(data_dir=tmp_path), StackPaths(tmp_path)
    store = open_store(f"file://{tmp_path / 'raw'}", settings)
    to = Destination(store, "raw", "demo", "shop", Signal.LOGS)
    monkeypatch.setattr(standing, "shop_destination", lambda _settings: to)
    monkeypatch.setattr(standing, "LOOK_S", 0.01)
    monkeypatch.setattr(Generator, "_tick", lambda _self, _second: None)
    assert not standing.close_shop(settings)
    standing.leave_shop(settings, 7)
    assert paths.shop_plan.parent.stat().st_mode & 0o777 == 0o700
    shop = threading.Thread(target=standing.run_shop, args=(settings, paths.shop_plan))
    shop.start()
    while not paths.shop_beat.exists():
        time.sleep(0.01)
    assert standing.close_shop(settings)
    shop.join(PATIENCE_S)
    assert not shop.is_alive()

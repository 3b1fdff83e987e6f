"""Units of LakeQL against brute force over the same rows."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.segments import order
from lakerunner_assets.segments.logs import write_log_segment
from lakerunner_assets.segments.traces import write_span_segment
from lakerunner_assets.segments.written import SegmentIdentity, WrittenSegment
from lakerunner_query.errors import EvaluationError, InvalidRequestError, LimitExceededError
from lakerunner_query.lakeql.tables import TABLES, ColumnKeys, TableColumn
from lakerunner_query.protocol.units import SegmentRef, TableUnit, segment_ref
from lakerunner_query.worker.shared import block_cache
from lakerunner_query.worker.shared.range_requests import RangeStore
from lakerunner_query.worker.tables.pruning import ConditionFinder
from resources.duckdb import Cancellation, CancelledQueryError
from resources.index.types import SegmentQuery
from resources.lake import streams
from resources.lake.ddsketch import merged_quantiles
from resources.lake.few_samples import sketch_points
from resources.lake.frequency import ROLLUPS
from resources.lake.layout import Signal
from resources.lake.rollup_columns import filled
from resources.objects.errors import DeniedError
from tests.support.cooking_lake import lake_in
from tests.support.decode.span_messages import decode_object, sample
from tests.support.decoding import decode_object as decode_logs
from tests.support.query.homes import open_lake
from tests.support.query.lake import BASE, Lake, Line, otlp
from tests.support.query.metric_lake import BASE_MS, labels, write_samples
from tests.support.query.tables import EVER, Tables, tables_over
from tests.support.rolling_lake import HOUR, arrive, every, gauge, roll_hours

pytestmark = pytest.mark.integration
SERVICES = ("web", "api", "db", "cart")
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
TEXT, BIGINT = "VARCHAR", "BIGINT"


@pytest.fixture(scope="module")
def tables(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with tables_over(lake.folder, tmp_path_factory.mktemp("tables")) as found:
        yield found


@pytest.fixture(scope="module")
def small_groups() -> Iterator[None]:
    """Row groups of few rows, so that small segments have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "MAX_GROUP_ROWS", 16)
        patch.setattr(order, "SMALL_SEGMENT_ROWS", 0)
        yield


def trace(number: int) -> bytes:
    return (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "big") * 2


def line(number: int, at: int, *, with_code: bool) -> Line:
    attributes: dict[str, object] = {"http.route": f"/r{number % 3}"}
    if with_code:
        attributes["code"] = number % 5
    return Line(
        at,
        f"line {number} of {number % 7}",
        SERVICES[number % 4],
        (9, 13, 17)[number % 3],
        attributes,
        {"k8s.pod.name": f"pod-{number % 6}"},
        trace(number % 40) if number % 4 else b"",
    )


@pytest.fixture(scope="module")
def logs(lake: Lake, small_groups: None) -> tuple[list[SegmentRef], list[tuple[int, Line]]]:
    """Five segments that overlap in time, and their rows; one has no attribute `code`."""
    del small_groups
    segments, rows = [], []
    for part in range(5):
        lines = [line(n, 1 + 1000 * part + 13 * n % 1700, with_code=part != 2) for n in range(part, 160, 2)]
        segments.append(segment_ref(lake.write("acme", lines)))
        rows += [(BASE + one.at, one) for one in lines]
    return segments, rows


SEVERITY = {9: "INFO", 13: "WARN", 17: "ERROR"}
Logs = tuple[list[SegmentRef], list[tuple[int, Line]]]


def test_rows_of_logs_are_those_that_were_sent(tables: Tables, logs: Logs) -> None:
    segments, rows = logs
    names = (
        "tsns",
        "organization_id",
        "service_name",
        "severity",
        "message",
        "trace_id",
        "attr_code",
        "attr_http_route",
        "k8s_pod_name",
        "resource_k8s_pod_name",
    )
    found = tables.rows("logs", segments, f"SELECT {', '.join(names)} FROM rows", names)
    wanted = [
        (
            at,
            "acme",
            one.service,
            SEVERITY[one.level],
            one.text,
            one.trace.hex() or None,
            one.attributes.get("code"),
            one.attributes["http.route"],
            one.resource["k8s.pod.name"],
            one.resource["k8s.pod.name"],
        )
        for at, one in rows
    ]
    assert Counter(found) == Counter(wanted)


def test_maps_hold_what_was_sent_by_original_name(tables: Tables, logs: Logs) -> None:
    segments, rows = logs
    found = tables.rows(
        "logs",
        segments,
        "SELECT tsns, attributes, resource_attrs, labels FROM rows WHERE message = 'line 7 of 0'",
        ("tsns", "message", "attributes", "resource_attrs", "labels"),
    )
    wanted = [
        (
            at,
            sorted((key, str(value)) for key, value in one.attributes.items()),
            [("k8s.pod.name", one.resource["k8s.pod.name"]), ("service.name", one.service)],
            [("k8s_pod_name", one.resource["k8s.pod.name"]), ("service_name", one.service)],
        )
        for at, one in rows
        if one.text == "line 7 of 0"
    ]
    assert sorted((at, sorted(a), r, l) for at, a, r, l in found) == sorted(wanted)  # noqa: E741
    assert len(wanted) > 1


CONDITIONS: dict[str, Callable[[int, Line], bool]] = {
    "service_name = 'web'": lambda at, one: one.service == "web",
    "service_name IN ('web', 'cart') AND severity <> 'INFO'": lambda at, one: (
        one.service in {"web", "cart"} and one.level != 9
    ),
    "upper(service_name) LIKE 'A%' OR message LIKE '%1%'": lambda at, one: (
        one.service == "api" or "1" in one.text
    ),
    "k8s_pod_name = 'pod-3' AND labels['service_name'] = 'cart'": lambda at, one: (
        one.resource["k8s.pod.name"] == "pod-3" and one.service == "cart"
    ),
    "service_name = 'none'": lambda at, one: False,
    "k8s_pod_name > 'pod-3' AND attr_code = 2": lambda at, one: (
        str(one.resource["k8s.pod.name"]) > "pod-3" and one.attributes.get("code") == 2
    ),
    "service_name IS NULL": lambda at, one: False,
    "coalesce(nothing, 'x') = 'x' AND service_name = 'db'": lambda at, one: one.service == "db",
    "random() < 2 AND service_name = 'db'": lambda at, one: one.service == "db",
}
READ = ("tsns", "service_name", "severity", "message", "k8s_pod_name", "labels", "attr_code", "trace_id")


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(CONDITIONS)),
    st.tuples(st.integers(0, 6200), st.integers(0, 6200)).map(sorted),
    st.sampled_from([(), ("web",), ("web", "db", "nope"), ("nope",)]),
    st.sampled_from([(), (3,), (1, 2, 3, 900), tuple(range(70))]),
)
def test_pruning_never_loses_a_row(
    tables: Tables, logs: Logs, condition: str, bounds: list[int], services: Sequence[str], ids: Sequence[int]
) -> None:
    segments, rows = logs
    first, last = BASE + bounds[0], BASE + bounds[1]
    keys = [ColumnKeys("service_name", tuple(services))] if services else []
    keys += [ColumnKeys("trace_id", tuple(trace(n).hex() for n in ids))] if ids else []
    found = tables.rows(
        "logs",
        segments,
        f'SELECT tsns, message FROM rows AS "L" WHERE {condition}',
        [*READ, TableColumn("nothing", TEXT)],
        start_ns=first,
        end_ns=last,
        keys=keys,
    )
    assert Counter(found) == Counter(
        (at, one.text)
        for at, one in rows
        if first <= at <= last
        and CONDITIONS[condition](at, one)
        and (not services or one.service in services)
        and (not ids or one.trace in {trace(n) for n in ids})
    )


def test_row_groups_without_the_stream_or_the_id_are_not_read(tables: Tables, logs: Logs) -> None:
    segments, _ = logs
    _, everything = tables.scan("logs", segments, "SELECT count(*) FROM rows", ())
    assert everything.row_groups > 20
    assert everything.row_groups == everything.row_groups_read
    _, stream = tables.scan(
        "logs", segments, "SELECT count(*) FROM rows WHERE service_name = 'web'", ("service_name",)
    )
    assert 0 < stream.row_groups_read < everything.row_groups_read / 2
    one = (ColumnKeys("trace_id", (trace(3).hex(),)),)
    _, by_id = tables.scan("logs", segments, "SELECT count(*) FROM rows", ("trace_id",), keys=one)
    assert 0 < by_id.row_groups_read < everything.row_groups_read
    none = (ColumnKeys("trace_id", ("f" * 32,)),)
    table, absent = tables.scan("logs", segments, "SELECT count(*) n FROM rows", ("trace_id",), keys=none)
    assert (table["n"].to_pylist(), absent.segments_without_words, absent.row_groups_read) == ([0], 5, 0)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT count(*), (SELECT count(*) FROM rows) FROM rows WHERE service_name = 'web'", "web, all"),
        ("SELECT count(*) FROM (SELECT * FROM rows) r WHERE r.service_name = 'web'", "web"),
        ("WITH a AS (SELECT * FROM rows) SELECT count(*) FROM a WHERE service_name = 'web'", "web"),
        ("SELECT count(*) FROM rows r, rows q WHERE q.service_name = 'web' AND r.tsns = q.tsns", "pairs"),
    ],
)
def test_conditions_narrow_only_the_rows_that_they_are_on(
    tables: Tables, logs: Logs, sql: str, wanted: str
) -> None:
    segments, rows = logs
    each, web = Counter(at for at, _ in rows), Counter(at for at, one in rows if one.service == "web")
    counts = {
        "web": (web.total(),),
        "web, all": (web.total(), len(rows)),
        "pairs": (sum(each[at] * count for at, count in web.items()),),
    }
    assert tables.rows("logs", segments, sql, ("tsns", "service_name")) == [counts[wanted]]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("service_name = 'a' AND message = 'b'", "(service_name = 'a')"),
        ("L.service_name = 'a' AND (Job = 'x' OR job LIKE 'y%') AND tsns > 3",
         "((L.service_name = 'a') AND ((Job = 'x') OR (job ~~ 'y%')))"),
        ("labels['x'] = 'y'", "(labels['x'] = 'y')"),
        ("message = service_name", None),
        ("job = (SELECT 'a')", None),
        ("random() < 0.5 OR job = 'a'", None),
        ("sleep_ms(1) OR job = 'a'", None),
        ("other.job = 'a'", None),
        ("level2 = 'a'", None),
        ("1 = 1", None),
    ],
)  # fmt: skip
def test_conditions_on_labels_alone_are_found(tables: Tables, where: str, found: str | None) -> None:
    columns = [TableColumn(name, TEXT) for name in ("service_name", "job", "labels", "message", "tsns")]
    unit = TableUnit("a", "acme", "logs", (), 0, 1, tuple(columns), f"SELECT 1 FROM rows AS L WHERE {where}")
    conditions = ConditionFinder(tables.session).of(TABLES["logs"], unit)
    assert (conditions and conditions.sql) == (found and f'SELECT place FROM "rows" AS L WHERE {found}')


def test_a_name_that_the_statement_makes_is_no_label(tables: Tables, logs: Logs) -> None:
    segments, rows = logs
    sql = "SELECT severity AS level2, count(*) FROM rows WHERE level2 = 'ERROR' GROUP BY 1"
    wanted = sum(one.level == 17 for _, one in rows)
    assert tables.rows("logs", segments, sql, ("severity",)) == [("ERROR", wanted)]


def test_bounds_are_exact_to_the_nanosecond_and_inclusive(tables: Tables, logs: Logs) -> None:
    segments, rows = logs
    times = sorted({at for at, _ in rows})
    for first, last in ((times[3], times[9]), (times[3] + 1, times[9] - 1), (times[0], times[0])):
        found = tables.rows(
            "logs",
            segments,
            "SELECT count(*), min(tsns), max(tsns) FROM rows",
            ("tsns",),
            start_ns=first,
            end_ns=last,
        )
        inside = [at for at, _ in rows if first <= at <= last]
        assert found == [(len(inside), min(inside), max(inside))]


def test_timestamps_are_cut_to_microseconds_also_before_1970(lake: Lake, tables: Tables) -> None:
    times = [-1, 0, -1000, -1001, 1999, -(10**18) - 1]
    (decoded,) = log_tables([Line(n, str(at)) for n, at in enumerate(times)])
    place = decoded.column_names.index("chq_tsns")
    early = decoded.set_column(place, decoded.schema.field(place), [pa.array(times)])
    path = lake.folder / "early.parquet"
    written = write_log_segment([early], path, SegmentIdentity("acme", "default", "logs", 0, "e" * 32))
    sql = "SELECT epoch_us(timestamp), message FROM rows"
    found = tables.rows("logs", [reference(path, written)], sql, ("timestamp", "message"))
    assert sorted(found) == sorted((at // 1000, str(at)) for at in times)


def test_types_that_differ_become_text_and_missing_columns_null(lake: Lake, tables: Tables) -> None:
    refs = [
        segment_ref(lake.write("acme", [Line(n, str(n), attributes=attributes)]))
        for n, attributes in enumerate(
            (
                {"v": True, "n": 1},
                {"v": 7, "n": 2},
                {"v": 2.5},
                {"v": "text", "n": 4},
                {"v": float("inf")},
                {},
            ),
            1,
        )
    ]
    assert tables.columns("logs", refs)["attr_v"].type == TEXT
    assert tables.columns("logs", refs)["attr_n"].type == BIGINT
    assert tables.columns("logs", refs[1:2])["attr_v"].type == BIGINT
    found = tables.rows(
        "logs", refs, "SELECT message, attr_v, attr_n FROM rows ORDER BY 1", ("message", "attr_v", "attr_n")
    )
    assert found == [
        ("1", "true", 1),
        ("2", "7", 2),
        ("3", "2.5", None),
        ("4", "text", 4),
        ("5", "Infinity", None),
        ("6", None, None),
    ]
    maps = tables.rows(
        "logs", refs, "SELECT message, attributes['v'] FROM rows ORDER BY 1", ("message", "attributes")
    )
    assert [value for _, value in maps] == [value for _, value, _ in found]
    with pytest.raises(EvaluationError, match="Could not convert string"):  # and no row is lost silently
        tables.scan("logs", refs, "SELECT sum(attr_v) FROM rows", [TableColumn("attr_v", BIGINT)])


def test_keys_that_become_one_name_share_a_column(lake: Lake, tables: Tables) -> None:
    refs = [
        segment_ref(lake.write("acme", [Line(1, "a", attributes={"http_route": "/under"})])),
        segment_ref(
            lake.write("acme", [Line(2, "b", attributes={"http.route": "/dot", "HTTP.Route": "/upper"})])
        ),
        segment_ref(lake.write("acme", [Line(3, "c", attributes={"HTTP.Route": "/only"})])),
    ]
    schema = tables.schema("logs", refs)
    assert schema.field("attr_http_route").metadata[b"original"] == b"http.route"
    for part in (refs, refs[:1], refs[1:]):  # whatever else is in the unit
        found = tables.rows(
            "logs", part, "SELECT message, attr_http_route FROM rows", ("message", "attr_http_route")
        )
        assert set(found) <= {("a", "/under"), ("b", "/dot"), ("c", "/only")}
        assert len(found) == len(part)


def test_labels_that_differ_in_case_share_a_column(lake: Lake, tables: Tables) -> None:
    made = [
        lake.push("acme", [({"Job": "one", "service_name": "s"}, [(BASE + 1, "a", {})])]),
        lake.push("acme", [({"job": "two", "timestamp": "t", "service_name": "s"}, [(BASE + 2, "b", {})])]),
        lake.push(
            "acme",
            [({"Job": "three", "job": "four", "attr_x": "y", "service_name": "s"}, [(BASE + 3, "c", {})])],
        ),
    ]
    refs = [segment_ref(one) for one in made]
    names = tables.schema("logs", refs).names
    assert [name for name in names if name.lower() in {"job", "timestamp", "attr_x"}] == ["timestamp", "Job"]
    found = tables.rows(
        "logs",
        refs,
        "SELECT message, job, labels['timestamp'], labels['attr_x'] FROM rows ORDER BY 1",
        ("message", "Job", "labels"),
    )
    assert found == [("a", "one", None, None), ("b", "two", "t", None), ("c", "three", None, "y")]


@pytest.mark.parametrize("together", [True, False])
def test_two_label_sets_with_one_id_stay_apart(
    lake: Lake, tables: Tables, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """Ids are hashes of 64 bits: two of them may be equal, within one segment and between two."""
    series = {labels("m", job=job): [(at, float(at)) for at in range(n, 40, 2)] for n, job in enumerate("ab")}
    monkeypatch.setattr(streams, "stream_id", lambda _labels: 7)
    parts = [series] if together else [{one: series[one]} for one in series]
    refs = [segment_ref(write_samples(lake, "acme", part)) for part in parts]
    found = tables.rows("metrics", refs, "SELECT tid, job, value FROM rows", ("tid", "job", "value"))
    assert Counter(found) == Counter(
        (7, dict(key)["job"], v) for key, all_ in series.items() for _, v in all_
    )
    found = tables.rows("metrics", refs, "SELECT value FROM rows WHERE job = 'a'", ("job", "value"))
    assert Counter(found) == Counter((value,) for _, value in series[labels("m", job="a")])


def test_values_of_metrics_are_exact_and_stale_markers_none(
    lake: Lake, tables: Tables, small_groups: None
) -> None:
    del small_groups
    numbers = [
        0.1,
        0.30000000000000004,
        -0.0,
        1e300,
        5e-324,
        17.25,
        2.0**53,
        float("nan"),
        float("inf"),
        STALE,
    ]
    series = {
        labels("cpu", job=f"j{n}", code=str(n)): [(at * 500 + n, numbers[(at + n) % 10]) for at in range(70)]
        for n in range(6)
    }
    series[labels("", zone="eu")] = [(5, 1.0)]
    series = {key if dict(key)["__name__"] else (("zone", "eu"),): value for key, value in series.items()}
    ref = segment_ref(write_samples(lake, "acme", series))
    rows = [
        (
            dict(key).get("__name__", ""),
            dict(key).get("job"),
            at + BASE_MS,
            None if _is_stale(value) else repr(value),
        )
        for key, samples in series.items()
        for at, value in samples
    ]
    read = ("metric_name", "job", "timestamp", "value")
    sql = "SELECT metric_name, job, epoch_ms(timestamp), value FROM rows"

    def shown(found: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        return Counter((*one[:3], None if one[3] is None else repr(one[3])) for one in found)

    assert shown(tables.rows("metrics", [ref], sql, read)) == Counter(rows)
    for condition, wanted in (
        ("metric_name = ''", [one for one in rows if not one[0]]),
        ("metric_name = 'cpu' AND job IN ('j2', 'j5')", [one for one in rows if one[1] in {"j2", "j5"}]),
        ("metric_name LIKE 'c%' AND job IS NULL", []),
    ):
        assert shown(tables.rows("metrics", [ref], f"{sql} WHERE {condition}", read)) == Counter(wanted)
    maps = tables.rows(
        "metrics", [ref], "SELECT DISTINCT labels FROM rows WHERE job = 'j2'", ("job", "labels")
    )
    assert maps == [([("code", "2"), ("job", "j2")],)]
    _, report = tables.scan("metrics", [ref], f"{sql} WHERE job = 'j2'", read)
    assert report.row_groups_read < report.row_groups
    first, last = (BASE_MS + 1000) * 1_000_000 + 1, (BASE_MS + 3000) * 1_000_000 + 999_999
    found = shown(tables.rows("metrics", [ref], sql, read, start_ns=first, end_ns=last))
    assert found == Counter(one for one in rows if BASE_MS + 1000 < one[2] <= BASE_MS + 3000)


def _is_stale(value: float) -> bool:
    return struct.pack("<d", value) == struct.pack("<d", STALE)


def test_rollups_are_filled_and_have_quantiles(tmp_path: Path) -> None:
    lake = lake_in(tmp_path / "rolled")
    rng = np.random.default_rng(5)
    odd = [1.5, -2.25, 1e15, float("nan"), 0.30000000000000004, 2.0**52 + 1, STALE]
    samples = {
        "odd": [(at, float(rng.choice(odd))) for at, _ in every(7)],
        "steps": [(at, float(rng.integers(40))) for at, _ in every(11)],
        # half of (first + last) * count, from which sums are counted, leaves 64 bits
        "ends": [(at, 4e15 if n in {0, 1799} else 0.0) for n, (at, _) in enumerate(every(2))],
    }
    for name, values in samples.items():
        arrive(lake, f"{name}.binpb", gauge(values, name=name))
    lake.cook(Signal.METRICS)
    roll_hours(lake, HOUR)
    names = ("count", "sum", "min", "max", "first", "last")
    with tables_over(tmp_path / "rolled" / "lake", tmp_path, in_place=True) as tables:
        for one in ROLLUPS[:-1]:
            query = SegmentQuery("acme", one.dataset, one.frequency_ms, -EVER, EVER)
            refs = [segment_ref(segment) for segment in lake.index.find_segments(query)]
            stored = filled(pq.read_table(tmp_path / "rolled" / "lake" / refs[0].key))
            qs = merged_quantiles(
                stored["chq_sketch"].combine_chunks(),
                np.arange(stored.num_rows),
                stored.num_rows,
                (0.5, 0.95, 0.99),
                sketch_points(stored),
            )
            wanted = [
                (
                    row["metric_name"],
                    row["chq_timestamp"],
                    *(repr(row[f"chq_rollup_{name}"]) for name in names),
                    *(repr(None if np.isnan(q) else float(q)) for q in quantiles),
                )
                for row, quantiles in zip(stored.to_pylist(), qs, strict=True)
            ]
            columns = ", ".join(f'"{name}"' for name in (*names, "p50", "p95", "p99"))
            found = tables.rows(
                f"metrics_{one.label}",
                refs,
                f"SELECT metric_name, epoch_ms(timestamp), {columns}, avg FROM rows",
                ("metric_name", "timestamp", *names, "p50", "p95", "p99", "avg"),
            )
            assert Counter((row[0], row[1], *map(repr, row[2:11])) for row in found) == Counter(wanted)
            for row in found:
                assert repr(row[11]) == repr(None if not row[2] else row[3] / row[2])


def test_spans_are_those_that_were_sent(lake: Lake, tables: Tables, small_groups: None) -> None:
    del small_groups
    request = sample(120)
    ref = write_spans(lake, decode_object(request.SerializeToString()))
    names = (
        "tsns",
        "end_tsns",
        "duration_ns",
        "service_name",
        "name",
        "kind",
        "status_code",
        "trace_id",
        "span_id",
        "parent_span_id",
        "attr_user",
        "attr_http_response_status_code",
        "resource_host_cpus",
        "k8s_pod_name",
    )
    wanted = [
        (
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.end_time_unix_nano - span.start_time_unix_nano,
            service,
            span.name,
            ("server", "client")[span.kind - 2],
            ("unset", "ok", "error")[span.status.code],
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex() or None,
            span.attributes[1].value.string_value,
            span.attributes[0].value.int_value,
            8,
            f"{service}-0",
        )
        for group in request.resource_spans
        for service in [group.resource.attributes[0].value.string_value]
        for scope in group.scope_spans
        for span in scope.spans
    ]
    sql = f"SELECT {', '.join(names)} FROM rows"
    assert Counter(tables.rows("spans", [ref], sql, names)) == Counter(wanted)
    by_label = f"{sql} WHERE k8s_pod_name = 'api-0' AND labels['service_name'] LIKE 'a%'"
    api = Counter(row for row in wanted if row[3] == "api")
    assert Counter(tables.rows("spans", [ref], by_label, (*names, "labels"))) == api
    ids = {row[7] for row in wanted[:7]}
    found, report = tables.scan("spans", [ref], sql, names, keys=[ColumnKeys("trace_id", tuple(ids))])
    assert Counter(zip(*found.to_pydict().values(), strict=True)) == Counter(r for r in wanted if r[7] in ids)
    assert 0 < report.row_groups_read < report.row_groups
    for one, count in Counter(row[7] for row in wanted).items():
        alone = [ColumnKeys("trace_id", (one,))]
        assert tables.rows("spans", [ref], "SELECT count(*) FROM rows", ("trace_id",), keys=alone) == [
            (count,)
        ]
    many = (*ids, *(f"{n:032x}" for n in range(400)), "not an id", next(iter(ids)).upper())
    assert len(tables.rows("spans", [ref], sql, names, keys=[ColumnKeys("trace_id", many)])) == found.num_rows
    assert tables.rows("spans", [ref], sql, names, keys=[ColumnKeys("trace_id", ())]) == []


def write_spans(lake: Lake, given: Sequence[Any]) -> SegmentRef:
    path = lake.folder / "spans.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    return reference(
        path, write_span_segment(given, path, SegmentIdentity("acme", "c", "traces", 0, "a" * 32))
    )


def reference(path: Path, written: WrittenSegment) -> SegmentRef:
    return SegmentRef(
        path.stem,
        path.name,
        written.bytes,
        written.min_ns,
        written.max_ns,
        written.series_offset,
        written.series_length,
        written.rows,
        written.bloom_offset,
        written.bloom_length,
    )


def log_tables(lines: Sequence[Line]) -> list[pa.Table]:
    raw = otlp(lines).SerializeToString()
    return [one.table for one in decode_logs(raw, arrival_ns=BASE, max_bytes=1 << 30, slice_bytes=1 << 27)]


def test_no_segments_are_no_rows_but_an_answer(tables: Tables) -> None:
    columns = [TableColumn("timestamp", "TIMESTAMP"), TableColumn("labels", "MAP(VARCHAR, VARCHAR)")]
    assert tables.rows("logs", [], "SELECT count(*), max(timestamp) FROM rows", columns) == [(0, None)]
    assert tables.scan("logs", [], "SELECT labels FROM rows", columns)[0].num_rows == 0


@pytest.mark.parametrize("damage", ["rows", "footer", "cut", "gone", "labels"])
def test_damaged_segments_are_missing_and_the_others_answer(lake: Lake, tmp_path: Path, damage: str) -> None:
    good, bad = (
        segment_ref(lake.write("acme", [Line(n, f"{name} {n} {n * 7919}") for n in range(1, 900)]))
        for name in ("good", "bad")
    )
    path = lake.folder / bad.key
    raw = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(raw[:-9])
    else:
        facts = pq.read_metadata(path)
        place = [facts.schema.column(n).path for n in range(facts.num_columns)].index("log_message")
        begin, length = {
            "rows": (facts.row_group(0).column(place).data_page_offset, 400),
            "labels": (bad.series_offset, bad.series_length),
            "footer": (len(raw) - 200, 190),
        }[damage]
        raw[begin : begin + length] = bytes(length)
        path.write_bytes(raw)
    with tables_over(lake.folder, tmp_path) as tables:
        sql = "SELECT count(*) n, min(message) m, max(service_name) s FROM rows"
        columns = [TableColumn("message", TEXT), TableColumn("service_name", TEXT)]
        table, report = tables.scan("logs", [good, bad], sql, columns)
    assert table.to_pylist() == [{"n": 899, "m": "good 1 7919", "s": "web"}]
    assert [one.segment_id for one in report.missing] == [bad.segment_id]
    assert report.missing[0].reason


@dataclass
class Refusing:
    """A store that gives the end of one object, and nothing before it."""

    store: RangeStore
    key: str
    before: int

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if key == self.key and start < self.before:
            raise DeniedError(key, "access denied")
        return self.store.get_range(key, start, length)


def test_a_segment_whose_rows_the_store_refuses_is_missing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_cache, "WHOLE_BELOW", 0)
    rng = np.random.default_rng(1)
    refs = [
        segment_ref(lake.write("acme", [Line(n, rng.bytes(300).hex()) for n in range(1, 900)]))
        for _ in range(2)
    ]
    store = Refusing(open_lake(lake.folder), refs[1].key, 100_000)
    with tables_over(lake.folder, tmp_path, store) as tables:
        sql = "SELECT count(*), count(DISTINCT message) FROM rows"
        table, report = tables.scan("logs", refs, sql, [TableColumn("message", TEXT)])
    assert [column.to_pylist() for column in table.columns] == [[899], [899]]
    assert [(one.segment_id, "access denied" in one.reason) for one in report.missing] == [
        (refs[1].segment_id, True)
    ]


def test_errors_of_the_statement_damage_no_segment(tables: Tables, logs: Logs) -> None:
    segments, _ = logs
    with pytest.raises(EvaluationError, match="Could not convert string"):
        tables.scan("logs", segments, "SELECT sum(CAST(message AS INT)) FROM rows", ("message",))
    with pytest.raises(EvaluationError):
        tables.scan("logs", segments, "SELECT regexp_matches(message, '(') FROM rows", ("message",))
    with pytest.raises(duckdb.BinderException):
        tables.scan("logs", segments, "SELECT absent FROM rows", ("message",))


def test_answers_are_bounded(tables: Tables, logs: Logs) -> None:
    segments, _ = logs
    with pytest.raises(LimitExceededError, match=r"select fewer columns.*narrow the time range"):
        tables.scan("logs", segments, "SELECT message FROM rows", ("message",), max_bytes=2000)
    table, _ = tables.scan("logs", segments, "SELECT message FROM rows LIMIT 3", ("message",), max_bytes=2000)
    assert table.num_rows == 3


def test_requests_to_the_store_are_bounded(lake: Lake, logs: Logs, tmp_path: Path) -> None:
    segments, _ = logs
    with tables_over(lake.folder, tmp_path, max_requests=2) as tables, pytest.raises(LimitExceededError):
        tables.scan("logs", segments, "SELECT max(message) FROM rows", [TableColumn("message", TEXT)])


def test_a_cancelled_unit_stops(tables: Tables, logs: Logs) -> None:
    segments, _ = logs
    cancellation = Cancellation()
    threading.Timer(0.3, cancellation.cancel).start()
    forever = "SELECT count(*) FROM rows a, rows b, rows c, rows d, rows e WHERE hash(a.tsns, e.tsns) % 7 = 1"
    with pytest.raises(CancelledQueryError):
        tables.scan("logs", segments, forever, ("tsns",), cancellation=cancellation)


REFUSED = (
    "SELECT * FROM 'x.parquet'",
    "SELECT * FROM read_parquet('x')",
    "SELECT * FROM parquet_scan('x')",
    "COPY rows TO 'x'",
    "SELECT 1; SELECT 2",
    "",
    "SELECT * FROM lake_labels_0",
    "SELECT * FROM lake_series",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM duckdb_settings()",
    "SELECT (SELECT count(*) FROM read_text('/etc/passwd'))",
    "SELECT * FROM query('SELECT 1')",
    "SHOW TABLES",
    "SELECT * FROM rows, (SELECT * FROM glob('*'))",
    "WITH a AS (SELECT * FROM read_csv('x')) SELECT * FROM a",
    'SELECT * FROM (WITH "x.parquet" AS (SELECT 1) SELECT 1) a, "x.parquet"',
    "SELECT * FROM memory.main.rows",
    "SELECT * FROM (DESCRIBE rows)",
    "FROM (SHOW TABLES)",
    "SELECT 1) UNION (SELECT * FROM read_text('/etc/passwd')",
    "SET threads = 1",
    "CALL pragma_version()",
    "INSERT INTO rows VALUES (1)",
    "EXPLAIN SELECT 1",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_a_statement_reads_its_rows_and_nothing_else(tables: Tables, logs: Logs, sql: str) -> None:
    segments, _ = logs
    with pytest.raises(InvalidRequestError):
        tables.scan("logs", segments, sql, ("tsns",))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tsns FROM rows -- not the end",
        "WITH a AS (SELECT tsns FROM rows) SELECT * FROM a",
        "SELECT * FROM (VALUES (1), (2)) v(x), unnest([1, 2]) u(y), range(2) r(z)",
        "SELECT tsns FROM rows UNION ALL SELECT 1",
        "SELECT tsns FROM rows WHERE tsns IN (SELECT max(tsns) FROM rows)",
    ],
)
def test_queries_over_rows_are_allowed(tables: Tables, logs: Logs, sql: str) -> None:
    segments, _ = logs
    assert tables.rows("logs", segments, sql, ("tsns",))


def test_sessions_see_no_variables_of_python(tables: Tables) -> None:
    """DuckDB would read them as tables; the statements of users never may."""
    secret_rows = pa.table({"x": [1]})
    with tables.session.cursor() as cursor:
        for statement in ("SELECT * FROM secret_rows", "SELECT * FROM REFUSED", "SELECT * FROM segments"):
            with pytest.raises(duckdb.CatalogException):
                cursor.execute(statement).fetchall()
            with pytest.raises(duckdb.CatalogException):
                cursor.sql(statement).fetchall()
    assert secret_rows.num_rows == 1


def test_segments_on_the_own_disk_are_read_in_place(lake: Lake, logs: Logs, tmp_path: Path) -> None:
    segments, rows = logs
    with tables_over(lake.folder, tmp_path, in_place=True) as tables:
        sql = "SELECT service_name, count(*) FROM rows GROUP BY 1"
        found = tables.rows("logs", segments, sql, ("service_name",))
    assert dict(found) == Counter(one.service for _, one in rows)

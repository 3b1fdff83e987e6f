# ruff: noqa: E501 - a case is easier to read in few lines
"""Every row of the rules in docs/reference/sampling-policies.md holds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import replace as with_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakerunner_sampling.aggregate import Commit, StateLimits, TraceState
from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.documents import read_policies
from lakerunner_sampling.policies.hashing import NEVER, threshold_of
from lakerunner_sampling.policies.model import Budget, DecisionMoment, Dynamic, Flag, LimiterMemory
from lakerunner_sampling.shapes import CanonicalShape
from tests.support.sampling.oracle import fnv
from tests.support.sampling.spans import Span, trace_id, write

ROOT = Path(__file__).resolve().parents[3]
SECOND = 10**9
Policies = list[dict[str, Any]]
Trace = list[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """Policies, traces as lists of spans, and which of them are kept."""

    policies: Policies
    traces: list[Trace]
    kept: list[bool]
    by: list[str] | None = None
    """Policies that are named."""
    first_match: bool = False
    uses_tracestate: bool = True
    inverted: bool = False
    ids: list[int] | None = None
    """Numbers that give the trace ids, where these matter."""


def leaf(kind: str, name: str = "p", **settings: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **({kind: settings} if settings else {})}


def one(*policies: dict[str, Any]) -> Policies:
    return [{**policy, "name": policy["name"] if policy["name"] != "p" else f"p{number}"}
            for number, policy in enumerate(policies)]  # fmt: skip


def ottl(*conditions: str, key: str = "span") -> Policies:
    return one(leaf("ottl_condition", error_mode="ignore", **{key: list(conditions)}))


def lots(count: int, keep: Callable[[int], bool], start: int = 0) -> tuple[list[int], list[bool]]:
    """Return numbers of traces, and whether their ids are kept."""
    numbers = [7_000_000 + start + each for each in range(count)]
    return numbers, [keep(int.from_bytes(trace_id(each)[8:], "big") % NEVER) for each in numbers]


def hashed(count: int, salt: str, percentage: float) -> tuple[list[int], list[bool]]:
    numbers = [8_000_000 + each for each in range(count)]
    return numbers, [
        fnv(salt.encode() + trace_id(each)) <= percentage / 100 * (2**64 - 1) for each in numbers
    ]


ERROR, OK, UNSET = {"status": 2}, {"status": 1}, {"status": 0}
NOTHING: Trace = [{}]
ALWAYS, HAS_ERROR = leaf("always_sample"), leaf("status_code", status_codes=["ERROR"])
INVERTED = leaf("string_attribute", "inverted", key="a", values=["x"], invert_match=True)
HASHED, SALTED = hashed(40, "default-hash-seed", 30), hashed(40, "pepper", 30)
LOTS, HALF = lots(40, lambda lot: lot >= threshold_of(0.3)), lots(40, lambda lot: lot >= threshold_of(0.5))
BY_LOT = sorted(lots(6, bool)[0], key=lambda each: -(int.from_bytes(trace_id(each)[8:], "big") % NEVER))
"""Numbers of six traces, by falling randomness."""


def with_attribute(key: str, *values: str) -> list[Trace]:
    return [[{"attributes": {key: value}}] for value in values]


CASES: dict[str, Case] = {
    "combine-1": Case(one(HAS_ERROR, leaf("span_count", min_spans=2)), [[ERROR], [{}, {}], [{}]], [True, True, False]),
    "combine-2": Case(
        one(ALWAYS, leaf("drop", drop_sub_policy=[leaf("status_code", "e", status_codes=["ERROR"])])),
        [[ERROR], [OK]], [False, True], ["p1", "p0"]),
    "combine-3": Case(
        one(leaf("probabilistic", sampling_percentage=100), leaf("probabilistic", sampling_percentage=99.99999999),
            HAS_ERROR),
        [[ERROR], [OK]], [True, True], ["p0", "p0"]),
    "combine-4": Case(
        one(leaf("probabilistic", sampling_percentage=99.999999999), HAS_ERROR),
        [[ERROR]], [True], ["p0"], first_match=True),
    "combine-5": Case(one(HAS_ERROR), [[OK]], [False], [""]),
    "combine-6": Case(one(ALWAYS, INVERTED), [[{"attributes": {"a": "x"}}], NOTHING], [False, True], inverted=True),
    "combine-7": Case(one(INVERTED, HAS_ERROR), [[OK], [ERROR]], [False, True], inverted=True),
    "always_sample-1": Case(one(ALWAYS), [NOTHING, [ERROR, OK]], [True, True]),
    "latency-1": Case(
        one(leaf("latency", threshold_ms=100)),
        [[{"start": 0, "end": 60}, {"start": 50, "end": 101}], [{"start": 0, "end": 100}],
         [{"start": 0, "end": 60}, {"start": 900, "end": 905}]],
        [True, False, True]),
    "latency-2": Case(
        one(leaf("latency", threshold_ms=100, upper_threshold_ms=200)),
        [[{"end": 200}], [{"end": 201}], [{"end": 100}]], [True, False, False]),
    "span_duration-1": Case(
        one(leaf("span_duration", threshold_ms=50, upper_threshold_ms=80)),
        [[{"end": 20}, {"start": 900, "end": 970}], [{"end": 50}, {"start": 900, "end": 990}]], [True, False]),
    "span_count-1": Case(one(leaf("span_count", min_spans=2, max_spans=3), leaf("span_count", min_spans=5)),
                         [[{}], [{}] * 2, [{}] * 3, [{}] * 4, [{}] * 5], [False, True, True, False, True]),
    "status_code-1": Case(one(leaf("status_code", status_codes=["OK", "UNSET"])),
                          [[ERROR], [ERROR, OK], [UNSET]], [False, True, True]),
    "numeric_attribute-1": Case(
        one(leaf("numeric_attribute", key="n", min_value=10, max_value=20)),
        [*with_attribute("n", "9", "10", "20", "21"), [{"resource": {"n": "15"}}]], [False, True, True, False, True]),
    "numeric_attribute-2": Case(
        one(leaf("numeric_attribute", key="n", min_value=0, max_value=5)), with_attribute("n", "-3", "6"), [True, False]),
    "numeric_attribute-3": Case(
        one(leaf("numeric_attribute", key="n", min_value=1)), with_attribute("n", "5.5", "007", "x", "", "7"),
        [False, False, False, False, True]),
    "numeric_attribute-4": Case(
        one(leaf("numeric_attribute", key="n", min_value=1, max_value=9, invert_match=True)),
        [*with_attribute("n", "5", "10"), NOTHING, [{}, {"resource": {"n": "5"}}]], [False, True, True, False]),
    "string_attribute-1": Case(
        one(leaf("string_attribute", key="s", values=["a", "b", ""])),
        [*with_attribute("s", "a", "ab", ""), [{"resource": {"s": "b"}}]], [True, False, False, True]),
    "string_attribute-2": Case(
        one(leaf("string_attribute", key="s", values=["^/h", "z+$"], enabled_regex_matching=True)),
        with_attribute("s", "/health", "x/h", "fizz", "zx"), [True, False, True, False]),
    "string_attribute-3": Case(
        one(leaf("string_attribute", key="s", values=[".*"], enabled_regex_matching=True)),
        [*with_attribute("s", ""), [{"resource": {"s": ""}}], NOTHING], [False, True, False]),
    "string_attribute-4": Case(
        one(leaf("string_attribute", key="s", values=["a"], invert_match=True)),
        [*with_attribute("s", "a", "b"), NOTHING, [{"attributes": {"s": "b"}}, {"attributes": {"s": "a"}}]],
        [False, True, True, False]),
    "boolean_attribute-1": Case(
        one(leaf("boolean_attribute", key="b", value=True)),
        [*with_attribute("b", "true", "false", "yes"), [{"resource": {"b": "true"}}]], [True, False, False, True]),
    "boolean_attribute-2": Case(
        one(leaf("boolean_attribute", key="b", value=True, invert_match=True)),
        [*with_attribute("b", "true", "false"), NOTHING], [False, True, True]),
    "trace_state-1": Case(
        one(leaf("trace_state", key="k", values=["v", "w"])),
        [[{"state": "k=v"}], [{"state": "a=b, k=w"}], [{"state": "k=vv"}], [{"state": "kk=v"}], NOTHING],
        [True, True, False, False, False]),
    "trace_state-2": Case(
        one(leaf("trace_state", key="k.", values=["a|b", "c'd"])),
        [[{"state": "k.=a|b"}], [{"state": "kx=a|b"}], [{"state": "k.=a"}], [{"state": "k.=c'd"}]],
        [True, False, False, True]),
    "trace_flags-1": Case(one(leaf("trace_flags")), [[{"flags": 257}], [{"flags": 256}], [{}, {"flags": 1}]],
                          [True, False, True]),
    "probabilistic-1": Case(one(leaf("probabilistic", sampling_percentage=30)), [NOTHING] * 40, HASHED[1], ids=HASHED[0]),
    "probabilistic-2": Case(
        one(leaf("probabilistic", sampling_percentage=30, hash_salt="pepper")), [NOTHING] * 40, SALTED[1], ids=SALTED[0]),
    "probabilistic-3": Case(
        one(leaf("probabilistic", sampling_percentage=0), leaf("and", and_sub_policy=[
            leaf("probabilistic", "all", sampling_percentage=150), leaf("status_code", "e", status_codes=["ERROR"])])),
        [[ERROR], [OK]], [True, False]),
    "probabilistic-4": Case(
        one(leaf("probabilistic", sampling_percentage=30)),
        [*([[{"state": "ot=th:0"}]] * 40), [{"state": "ot=rv:ffffffffffffff"}], [{"state": "ot=rv:00000000000000"}]],
        [*LOTS[1], True, False], ids=[*LOTS[0], 1, 2]),
    "probabilistic-5": Case(
        one(leaf("probabilistic", sampling_percentage=30)), [[{"state": "ot=rv:00000000000000"}]] * 40, HASHED[1],
        ids=HASHED[0], uses_tracestate=False),
    "deterministic-1": Case(one(leaf("deterministic", sample_rate=2)), [NOTHING] * 40, HALF[1], ids=HALF[0]),
    "rate_limiting-1": Case(
        one(leaf("rate_limiting", spans_per_second=4)), [[{}] * 3] * 6, [True, True, False, False, False, False],
        ids=BY_LOT),
    "rate_limiting-2": Case(
        one(leaf("rate_limiting", spans_per_second=1, burst_capacity=4)), [[{}] * 5, [{}] * 2, [{}] * 2],
        [False, True, True], ids=BY_LOT[:3]),
    "rate_limiting-4": Case(
        one(leaf("and", and_sub_policy=[leaf("rate_limiting", "r", spans_per_second=1, burst_capacity=2),
                                        leaf("status_code", "e", status_codes=["ERROR"])])),
        [[OK] * 2, [ERROR] * 2, [ERROR] * 2], [False, True, False], ids=BY_LOT[:3]),
    "bytes_limiting-1": Case(
        one(leaf("bytes_limiting", bytes_per_second=1, burst_capacity=400)),
        [[{"name": "x" * 200}], [{"name": "x" * 500}], [{"name": ""}], [{}]], [True, False, True, False], ids=BY_LOT[:4]),
    "ottl_condition-1": Case(
        ottl('attributes["a"] == "x"', "span.status.code == STATUS_CODE_ERROR"),
        [[{}, {"attributes": {"a": "x"}}], [ERROR], [OK]], [True, True, False]),
    "ottl_condition-2": Case(
        ottl('spanevent.name == "exception" and spanevent.attributes["type"] == "io"', key="spanevent"),
        [[{"events": [("log", {}), ("exception", {"type": "io"})]}], [{"events": [("exception", {})]}], NOTHING],
        [True, False, False]),
    "ottl_condition-3": Case(
        ottl('attributes["a"] == "x" or attributes["a"] > 3'), [NOTHING, [{"attributes": {"a": "4"}}]], [False, True]),
    "ottl_condition-4": Case(
        ottl('resource.attributes["service.name"] == "shop" and span.kind == SPAN_KIND_SERVER and kind.string == "Server"'
             ' and attributes["b"] == nil and not (attributes["c"] != nil) and scope.name == ""'
             ' and (end_time_unix_nano - start_time_unix_nano) / 1000000 >= 5 and IsMatch(name, "^GET")'
             ' and HasSuffix(name, "/") and IsRootSpan() and Int(attributes["n"]) + 1 == 8'
             ' and Double(attributes["n"]) == 7.9 and Len(String(7)) == 1 and ToLowerCase(name) == "get /"'
             ' and trace_id != 0x00 and parent_span_id.string == "" and attributes["t"] == true'),
        [[{"end": 5, "attributes": {"n": "7.9", "t": "true"}}], [{"end": 4, "attributes": {"n": "7.9", "t": "true"}}]],
        [True, False]),
    "and-1": Case(one(leaf("and", and_sub_policy=[leaf("status_code", "e", status_codes=["ERROR"]),
                                                  leaf("span_count", "n", min_spans=2)])),
                  [[ERROR], [ERROR, OK], [OK, OK]], [False, True, False]),
    "not-1": Case(one(leaf("not", not_sub_policy=leaf("latency", "l", threshold_ms=100))), [[{"end": 500}], [{"end": 5}]],
                  [False, True]),
    "drop-1": Case(one(ALWAYS, leaf("drop", drop_sub_policy=[leaf("status_code", "e", status_codes=["ERROR"]),
                                                             leaf("span_count", "n", min_spans=2)])),
                   [[ERROR], [ERROR, OK]], [True, False]),
    "composite-1": Case(
        one(leaf("composite", max_total_spans_per_second=1000, policy_order=["b", "a"], composite_sub_policy=[
            leaf("status_code", "a", status_codes=["ERROR"]), leaf("span_count", "b", min_spans=2)])),
        [[ERROR], [OK, OK], [OK]], [True, True, False]),
    "composite-2": Case(
        one(leaf("composite", max_total_spans_per_second=8, composite_sub_policy=[
            leaf("status_code", "a", status_codes=["ERROR"]), leaf("always_sample", "b")],
            rate_allocation=[{"policy": "a", "percent": 25}])),
        [[ERROR], [ERROR], [ERROR], [OK] * 4, [OK]], [True, True, False, True, False], ids=BY_LOT[:5]),
    "composite-3": Case(
        one(leaf("composite", max_total_spans_per_second=2, composite_sub_policy=[
            leaf("status_code", "a", status_codes=["ERROR"]), leaf("always_sample", "b")])),
        [[ERROR] * 2, [OK]], [False, True], ids=BY_LOT[:2]),
}  # fmt: skip
OTHERS = {"rate_limiting-3", "ema_dynamic-1", "ema_throughput-1", "probability-1", "early-1"}
"""Rows with tests of their own below."""


def test_every_row_of_the_documentation_has_a_test() -> None:
    text = (ROOT / "docs/reference/sampling-policies.md").read_text()
    assert set(re.findall(r"^\| ([a-z_]+-\d+) \|", text, re.MULTILINE)) == {*CASES, *OTHERS}


def policy_set(case: Case) -> PolicySet:
    document = read_policies(
        yaml.safe_dump({"policies": case.policies, "sample_on_first_match": case.first_match}).encode()
    )
    return document.policy_set(case.uses_tracestate, case.inverted)


def number_of(name: str, place: int) -> int:
    return CASES[name].ids[place] if CASES[name].ids else random.Random(f"{name}{place}").randrange(10**6)


@pytest.fixture(scope="module")
def aggregated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """Aggregate the spans of all cases with the columns of all policies, once for each part of cases."""
    folder = tmp_path_factory.mktemp("cases")
    found = {}
    sets = {name: policy_set(case) for name, case in CASES.items()}
    flat = [with_(below, path=f"{name}/{below.path}") for name, policies in sets.items()
            for each in policies.policies for below in each.every() if isinstance(below.rule, Flag | Budget)]  # fmt: skip
    every = PolicySet(tuple(flat))
    by_sql = {each.sql: each.name for each in every.columns()}
    limits = StateLimits(folder / "scratch", readable=(folder,), threads=1)
    with TraceState(every, CanonicalShape(), limits) as state:
        for names in _without_common_ids():
            spans = {name: list(spans_of(name)) for name in names}
            path = folder / f"{names[0]}.parquet"
            state.rebuild([Commit(1, [write([span for each in spans.values() for span in each], path)])])
            for name in names:
                ids = pa.array({span.trace_id for span in spans[name]}, pa.binary())
                table = state.of(ids)
                wanted = {"trace_id", "first_seq", "last_seq", "span_count", "first_ns", "last_ns", "roots"}
                columns = {each: table.column(each) for each in wanted}
                columns |= {each.name: table.column(by_sql[each.sql]) for each in sets[name].columns()}
                found[name] = pa.table(columns)
    return found


def spans_of(name: str) -> Iterator[Span]:
    for place, trace in enumerate(CASES[name].traces):
        for at, span in enumerate(trace):
            yield Span(number_of(name, place), **{"span": 1 + at, **span})


def _without_common_ids() -> list[list[str]]:
    """Cases that may be aggregated together: those that choose their ids stand alone."""
    return [[name for name in CASES if not CASES[name].ids], *([name] for name in CASES if CASES[name].ids)]


@pytest.mark.parametrize("name", CASES)
def test_the_rule_holds(name: str, aggregated: dict[str, pa.Table]) -> None:
    case = CASES[name]
    table = policy_set(case).decide(aggregated[name], DecisionMoment(0), LimiterMemory()).table
    rows = {row["trace_id"]: row for row in table.to_pylist()}
    found = [rows[trace_id(number_of(name, place))] for place in range(len(case.traces))]
    assert [row["keep"] for row in found] == case.kept
    if case.by is not None:
        assert [row["policy"] for row in found] == case.by


def batch(policies: PolicySet, count: int, seed: int, key: str = "") -> pa.Table:
    rng = random.Random(seed)
    return pa.table({
        "trace_id": pa.array([rng.randbytes(16) for _ in range(count)], pa.binary()),
        "span_count": pa.array([1] * count), "first_ns": pa.array([0] * count), "last_ns": pa.array([1] * count),
        "ot_rv": pa.nulls(count, pa.int64()), "ot_th": pa.nulls(count, pa.int64()),
        **{each.name: pa.array([key] * count) for each in policies.columns() if each.type == "VARCHAR"},
    })  # fmt: skip


def kept(
    policies: PolicySet, traces: pa.Table, at_s: float, memory: LimiterMemory
) -> tuple[int, LimiterMemory]:
    found = policies.decide(traces, DecisionMoment(int(at_s * SECOND)), memory)
    return sum(found.table.column("keep").to_pylist()), LimiterMemory.from_json(found.memory.to_json())


def read(policy: dict[str, Any]) -> PolicySet:
    return read_policies(yaml.safe_dump([policy]).encode()).policy_set()


def test_rate_limiting_3_the_bucket_fills_with_the_watermark() -> None:
    policies = read(leaf("rate_limiting", spans_per_second=10, burst_capacity=15))
    first, memory = kept(policies, batch(policies, 100, 1), 0, LimiterMemory())
    again, memory = kept(policies, batch(policies, 100, 2), 0, memory)
    later, memory = kept(policies, batch(policies, 1000, 3), 60, memory)
    quiet, memory = kept(policies, batch(policies, 1, 4), 120, memory)
    after, memory = kept(policies, batch(policies, 1000, 5), 121, memory)
    assert (first, again, later, quiet, after) == (15, 0, 600, 1, 25)


@pytest.mark.parametrize("kind", ["ema_dynamic", "ema_throughput"])
def test_dynamic_1_rates_are_learned_by_key(kind: str) -> None:
    goal = {"goal_sample_rate": 10} if kind == "ema_dynamic" else {"goal_throughput_per_sec": 5}
    policies = read(leaf(kind, field_list=["root.name"], adjustment_interval="10s", **goal))
    assert isinstance(policies.policies[0].rule, Dynamic)
    memory = LimiterMemory()
    shares = []
    for number in range(6):
        count, memory = kept(policies, batch(policies, 2000, number, "GET /"), number * 10, memory)
        shares.append(count / 2000)
    assert 0.07 < shares[0] < 0.13
    assert abs(shares[-1] - (0.1 if kind == "ema_dynamic" else 5 * 10 / 2000)) < 0.02
    fresh, _ = kept(policies, batch(policies, 50, 99, "POST /new"), 60, memory)
    assert fresh == 50


def test_probability_1_is_that_of_the_whole_mix() -> None:
    policies = read_policies(yaml.safe_dump(one(
        leaf("probabilistic", sampling_percentage=50), leaf("probabilistic", sampling_percentage=50, hash_salt="b"),
    )).encode()).policy_set()  # fmt: skip
    table = policies.decide(batch(policies, 50, 1), DecisionMoment(0), LimiterMemory()).table
    assert table.column("probability").to_pylist() == pytest.approx([0.75] * 50)
    assert table.column("threshold").to_pylist() == [threshold_of(0.75)] * 50
    before = batch(policies, 50, 1).set_column(5, "ot_th", pa.array([threshold_of(0.5)] * 50))
    before = before.set_column(4, "ot_rv", pa.array([NEVER - 1] * 50))
    table = policies.decide(before, DecisionMoment(0), LimiterMemory()).table
    assert table.column("probability").to_pylist() == pytest.approx([0.5] * 50), (
        "both use the trace's one lot"
    )


def test_early_1_only_what_later_spans_cannot_turn() -> None:
    monotone = one(HAS_ERROR, leaf("latency", threshold_ms=5), leaf("span_count", min_spans=3))
    others = one(
        *monotone, leaf("latency", "upper", threshold_ms=5, upper_threshold_ms=9), INVERTED,
        leaf("probabilistic", "chance", sampling_percentage=50), leaf("rate_limiting", "limit", spans_per_second=5),
        leaf("not", "negated", not_sub_policy=leaf("latency", "l", threshold_ms=1)),
    )  # fmt: skip
    early = read_policies(yaml.safe_dump(others).encode()).policy_set().early
    assert [each.name for each in early] == ["p0", "p1", "p2"]
    drop = leaf("drop", "d", drop_sub_policy=[leaf("always_sample", "a")])
    assert read_policies(yaml.safe_dump([*monotone, drop]).encode()).policy_set().early == ()

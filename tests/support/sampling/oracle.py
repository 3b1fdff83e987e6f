"""Decisions of policies by the plainest means: one trace after the other, in Python, from the YAML's values.

It shares no line with the product: its own FNV hash, its own tracestate, its own order of budgets.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.sampling.spans import Span

WORD = 1 << 56
Trace = list[Span]
CONDITIONS: dict[str, Callable[[Span], bool]] = {
    'span.attributes["http.status_code"] >= 404': lambda s: (
        _number(s.attributes.get("http.status_code")) >= 404
    ),
    'span.attributes["route"] == "/pay/1" and status.code == STATUS_CODE_ERROR': lambda s: (
        s.attributes.get("route") == "/pay/1" and s.status == 2
    ),
    'attributes["retry"] != "true"': lambda s: s.attributes.get("retry") != "true",
    'attributes["retry"] == true or resource.attributes["tier"] == nil': lambda s: (
        s.attributes.get("retry") == "true" or "tier" not in s.resource
    ),
    'IsMatch(span.name, "^POST|SELECT$") and not (span.kind == SPAN_KIND_SERVER)': lambda s: (
        bool(re.search("^POST|SELECT$", s.name)) and s.kind != 2
    ),
    "end_time_unix_nano - start_time_unix_nano > 800000000": lambda s: s.end - s.start > 800,
    "IsRootSpan() and Len(span.status.message) == 4": lambda s: s.parent is None and len(s.message) == 4,
    'HasPrefix(resource.attributes["service.name"], "p")': lambda s: s.service.startswith("p"),
}
EVENT_CONDITIONS: dict[str, Callable[[str, dict[str, str]], bool]] = {
    'spanevent.name == "exception" and spanevent.attributes["type"] == "a"': lambda name, held: (
        name == "exception" and held.get("type") == "a"
    ),
    'name != "exception"': lambda name, held: name != "exception",
}


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def randomness(trace: Trace) -> int:
    found = [
        int(each[1], 16)
        for span in trace
        if (each := re.search(r"ot=(?:[^,]*;)?rv:([0-9a-f]{14})", span.state))
    ]
    return max(found) if found else int.from_bytes(trace[0].trace_id[8:], "big") % WORD


def passed_before(trace: Trace) -> int:
    """Return the threshold that a trace has passed; one above its randomness is a mistake of its sender."""
    found = [each[1] for span in trace if (each := re.search(r"ot=(?:[^,]*;)?th:([0-9a-f]+)", span.state))]
    least = min((int(each.ljust(14, "0"), 16) for each in found), default=0)
    return least if randomness(trace) >= least else 0


def fnv(data: bytes) -> int:
    state = 14695981039346656037
    for byte in data:
        state = (state ^ byte) * 1099511628211 % 2**64
    return state


class Oracle:
    """Decides batches by the policies of a YAML document, given as Python values."""

    def __init__(self, policies: Sequence[dict[str, Any]], first_match: bool = False) -> None:
        self.policies = policies
        self.first_match = first_match
        self.tokens: dict[int, float] = {}
        self.at: int | None = None

    def decide(self, traces: dict[bytes, Trace], now_ns: int) -> dict[bytes, bool]:
        """Return which traces of a batch are kept."""
        self.elapsed = 0.0 if self.at is None else max(0, now_ns - self.at) / 1e9
        self.known: dict[int, dict[bytes, bool]] = {}
        dropped = {
            key
            for policy in self.policies
            if policy["type"] == "drop"
            for key, kept in self.votes(policy, traces).items()
            if kept
        }
        rest = {key: trace for key, trace in traces.items() if key not in dropped}
        voted = [self.votes(policy, rest) for policy in self.policies if policy["type"] != "drop"]
        self.at = max(now_ns, self.at or now_ns)
        return {key: key in rest and any(each[key] for each in voted) for key in traces}

    def votes(self, policy: dict[str, Any], traces: dict[bytes, Trace]) -> dict[bytes, bool]:
        kind, given = policy["type"], policy.get(policy["type"], {})
        if kind in {"and", "drop"}:
            return self._all(given[f"{kind}_sub_policy"], traces)
        if kind == "not":
            return {key: not kept for key, kept in self.votes(given["not_sub_policy"], traces).items()}
        if kind == "composite":
            return self._composite(given, traces)
        if kind in {"rate_limiting", "bytes_limiting"}:
            return self._limited(policy, given, traces)
        return {key: LEAVES[kind](given, trace) for key, trace in traces.items()}

    def _all(self, parts: list[dict[str, Any]], traces: dict[bytes, Trace]) -> dict[bytes, bool]:
        kept = dict(traces)
        for part in sorted(parts, key=lambda each: each["type"].endswith("_limiting")):
            votes = self.votes(part, kept)
            kept = {key: trace for key, trace in kept.items() if votes[key]}
        return {key: key in kept for key in traces}

    def _limited(
        self, policy: dict[str, Any], given: dict[str, Any], traces: dict[bytes, Trace]
    ) -> dict[bytes, bool]:
        rate = given["spans_per_second"]
        burst = given.get("burst_capacity") or 2 * rate
        have = self.tokens.get(id(policy))
        have = burst if have is None else have + rate * self.elapsed
        kept, spent = within(traces, int(have), burst)
        self.tokens[id(policy)] = min(burst, have - spent)
        return kept

    def _composite(self, given: dict[str, Any], traces: dict[bytes, Trace]) -> dict[bytes, bool]:
        shares = {each["policy"]: each["percent"] for each in given.get("rate_allocation", [])}
        most = given["max_total_spans_per_second"]
        result = dict.fromkeys(traces, False)
        left = dict(traces)
        for part in given["composite_sub_policy"]:
            share = shares.get(part["name"], 0) / 100 * most or most / len(given["composite_sub_policy"])
            votes = self.votes(part, left)
            matched = {key: trace for key, trace in left.items() if votes[key]}
            budget = int(share) * max(self.elapsed, 1.0)
            result |= within(matched, int(budget), int(budget))[0]
            left = {key: trace for key, trace in left.items() if not votes[key]}
        return result


def within(traces: dict[bytes, Trace], budget: int, burst: int) -> tuple[dict[bytes, bool], int]:
    """Spend a budget on spans from the greatest randomness down; one that does not fit ends it."""
    order = sorted(
        (key for key in traces if len(traces[key]) <= burst), key=lambda key: -randomness(traces[key])
    )
    kept, spent = dict.fromkeys(traces, False), 0
    for key in order:
        if spent + len(traces[key]) > budget:
            break
        spent += len(traces[key])
        kept[key] = True
    return kept, spent


def _probabilistic(given: dict[str, Any], trace: Trace) -> bool:
    share = given["sampling_percentage"] / 100
    if any("ot=" in span.state for span in trace):
        return randomness(trace) >= round(WORD * (1 - share))
    salt = given.get("hash_salt") or "default-hash-seed"
    return fnv(salt.encode() + trace[0].trace_id) <= share * (2**64 - 1)


def _attribute(check: Callable[[dict[str, Any], str, bool], bool]) -> Callable[[dict[str, Any], Trace], bool]:
    def decide(given: dict[str, Any], trace: Trace) -> bool:
        found = any(
            (given["key"] in span.attributes and check(given, span.attributes[given["key"]], True))
            or (given["key"] in span.resource and check(given, span.resource[given["key"]], False))
            for span in trace
        )
        return found != bool(given.get("invert_match"))

    return decide


def _in_range(given: dict[str, Any], value: str, of_span: bool) -> bool:
    if not re.fullmatch(r"0|-?[1-9][0-9]*", value):
        return False
    return (given.get("min_value") or -(2**63)) <= int(value) <= (given.get("max_value") or 2**63 - 1)


def _matches(given: dict[str, Any], value: str, of_span: bool) -> bool:
    if of_span and value == "":
        return False
    if given.get("enabled_regex_matching"):
        return any(re.search(each, value) for each in given["values"])
    return value != "" and value in given["values"]


def _latency(given: dict[str, Any], trace: Trace) -> bool:
    took = max(max(s.end, s.start) for s in trace) - min(s.start for s in trace)
    return took > given["threshold_ms"] and (
        not given.get("upper_threshold_ms") or took <= given["upper_threshold_ms"]
    )


def _ottl(given: dict[str, Any], trace: Trace) -> bool:
    return any(
        any(CONDITIONS[each](span) for each in given.get("span", []))
        or any(EVENT_CONDITIONS[each](*event) for each in given.get("spanevent", []) for event in span.events)
        for span in trace
    )


LEAVES: dict[str, Callable[[dict[str, Any], Trace], bool]] = {
    "always_sample": lambda given, trace: True,
    "latency": _latency,
    "span_count": lambda given, trace: (
        given.get("min_spans", 0) <= len(trace)
        and (not given.get("max_spans") or len(trace) <= given["max_spans"])
    ),
    "span_duration": lambda given, trace: any(s.end - s.start > given["threshold_ms"] for s in trace),
    "status_code": lambda given, trace: any(
        ["UNSET", "OK", "ERROR"][span.status] in given["status_codes"] for span in trace
    ),
    "numeric_attribute": _attribute(_in_range),
    "string_attribute": _attribute(_matches),
    "boolean_attribute": _attribute(
        lambda given, value, of_span: value == ("true" if given["value"] else "false")
    ),
    "trace_state": lambda given, trace: any(
        each.strip() in {f"{given['key']}={value}" for value in given["values"]}
        for span in trace
        for each in span.state.split(",")
    ),
    "trace_flags": lambda given, trace: any(span.flags & 1 for span in trace),
    "probabilistic": _probabilistic,
    "deterministic": lambda given, trace: randomness(trace) >= WORD - int(WORD / given["sample_rate"] + 0.5),
    "ottl_condition": _ottl,
}


def random_policies(rng: random.Random) -> list[dict[str, Any]]:
    """Return policies of every type, two random ones alike in nothing but their names."""
    found = []
    for number in range(rng.randrange(1, 5)):
        kind = rng.choice(["leaf"] * 5 + ["and", "not", "drop", "composite", "limited"])
        found.append(_random(rng, kind, f"p{number}"))
    if all(each["type"] == "drop" for each in found):
        found.append(_leaf(rng, "last"))
    return found


def _random(rng: random.Random, kind: str, name: str) -> dict[str, Any]:
    if kind == "limited":
        return {
            "name": name,
            "type": "rate_limiting",
            "rate_limiting": {
                "spans_per_second": rng.randrange(1, 30),
                "burst_capacity": rng.randrange(5, 90),
            },
        }
    if kind == "leaf":
        return _leaf(rng, name)
    if kind == "not":
        return {"name": name, "type": "not", "not": {"not_sub_policy": _leaf(rng, "inner")}}
    if kind == "composite":
        parts = [_leaf(rng, f"c{number}") for number in range(rng.randrange(1, 4))]
        shares = [{"policy": "c0", "percent": rng.choice([10, 60])}] if rng.random() < 0.7 else []
        return {
            "name": name,
            "type": "composite",
            "composite": {
                "max_total_spans_per_second": rng.randrange(10, 200),
                "composite_sub_policy": parts,
                "rate_allocation": shares,
            },
        }
    nested = ["leaf", "leaf", "not"] + (["limited"] if kind == "and" else [])
    parts = [_random(rng, rng.choice(nested), f"s{number}") for number in range(rng.randrange(1, 4))]
    return {"name": name, "type": kind, kind: {f"{kind}_sub_policy": parts}}


def _leaf(rng: random.Random, name: str) -> dict[str, Any]:
    kind = rng.choice([each for each in LEAVES if each != "always_sample" or rng.random() < 0.2])
    settings: dict[str, Any] = {
        "always_sample": {},
        "latency": {"threshold_ms": rng.choice([0, 100, 1500]), "upper_threshold_ms": rng.choice([0, 2500])},
        "span_count": {"min_spans": rng.randrange(6), "max_spans": rng.choice([0, 5])},
        "span_duration": {"threshold_ms": rng.choice([1, 500, 2999])},
        "status_code": {"status_codes": rng.sample(["OK", "ERROR", "UNSET"], rng.randrange(1, 3))},
        "numeric_attribute": {
            "key": "http.status_code",
            "min_value": rng.choice([-10, 0, 400]),
            "max_value": rng.choice([450, 600]),
            "invert_match": rng.random() < 0.4,
        },
        "string_attribute": rng.choice(
            [
                {"key": "tier", "values": ["gold", "x"], "invert_match": rng.random() < 0.4},
                {
                    "key": "route",
                    "values": ["^/(health|live)$", "pay"],
                    "enabled_regex_matching": True,
                    "cache_max_size": 5,
                    "invert_match": rng.random() < 0.4,
                },
            ]
        ),
        "boolean_attribute": {
            "key": "retry",
            "value": rng.random() < 0.5,
            "invert_match": rng.random() < 0.4,
        },
        "trace_state": {"key": "k", "values": ["v1", "v3"]},
        "trace_flags": {},
        "probabilistic": {
            "sampling_percentage": rng.choice([0.5, 20, 50, 99.5]),
            "hash_salt": rng.choice(["", "s"]),
        },
        "deterministic": {"sample_rate": rng.randrange(1, 5)},
        "ottl_condition": {
            "error_mode": "ignore",
            "span": rng.sample(sorted(CONDITIONS), rng.randrange(1, 3)),
            "spanevent": rng.sample(sorted(EVENT_CONDITIONS), rng.randrange(2)),
        },
    }[kind]
    return {"name": name, "type": kind, **({kind: settings} if settings else {})}


def by_trace(spans: Sequence[Span]) -> dict[bytes, Trace]:
    found: dict[bytes, Trace] = defaultdict(list)
    for span in spans:
        found[span.trace_id].append(span)
    return dict(found)

"""Policy files are read as the collector's `tail_sampling` processor reads them, and strictly.

    policies:
      - {name: errors, type: status_code, status_code: {status_codes: [ERROR]}}
      - {name: rest, type: probabilistic, probabilistic: {sampling_percentage: 1}}

A whole collector configuration, its `tail_sampling` section or a bare list of policies will do. Keys that
nobody knows are faults with line and column; options of the collector's memory have no effect and are noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from lakerunner_sampling.policies.decide import PolicySet
from lakerunner_sampling.policies.leaves import LEAVES
from lakerunner_sampling.policies.model import And, Composite, Drop, Not, Policy, PolicyError, Rule
from resources.yaml_nodes import Fault, Fields, Node, Reading, YamlError, compose

MAX_BYTES = 1 << 20
MAX_POLICIES = 1000
_SECTIONS = ("receivers", "processors", "exporters", "extensions", "connectors", "service")
"""Sections of a collector's configuration; all but `processors` are passed over."""
_NO_EFFECT = (
    "num_traces", "expected_new_traces_per_sec", "block_on_overflow", "decision_cache",
    "decision_wait_after_root_received", "drop_pending_traces_on_shutdown", "num_shards",
)  # fmt: skip
_REFUSED = {
    "tail_storage": "spans are never held back here; remove it",
    "maximum_trace_size_bytes": "traces are not held in memory here, so none has to be cut off; remove it",
}
_KNOWN = ("policies", "decision_wait", "sample_on_first_match", "sampling_strategy", *_NO_EFFECT, *_REFUSED)
_NESTED = {"and": "and_sub_policy", "drop": "drop_sub_policy", "composite": "composite_sub_policy"}
_COMPOSITE = ("max_total_spans_per_second", "policy_order", "rate_allocation")
_TYPES = (*LEAVES, "and", "not", "drop", "composite")


class PolicyFileError(PolicyError):
    """A file has faults; the message has one line for each, with its place."""

    def __init__(self, file: str, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(fault.placed(file) for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """Content of a policy file."""

    policies: tuple[Policy, ...]
    first_match: bool = False
    decision_wait_ms: int | None = None
    notes: tuple[str, ...] = ()
    """Options that have no effect here."""

    def policy_set(self, uses_tracestate: bool = True, inverted_decisions: bool = False) -> PolicySet:
        return PolicySet(self.policies, self.first_match, uses_tracestate, inverted_decisions)


def read_policy_file(path: Path, environment: Mapping[str, str] | None = None) -> PolicyDocument:
    """Read a policy file, or raise with the places of its faults."""
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}; name a file with policies") from error
    return read_policies(text, str(path), environment)


def read_policies(
    text: bytes, file: str = "policies", environment: Mapping[str, str] | None = None
) -> PolicyDocument:
    """Read a document of policies alone; `${NAME}` stays as it is without an environment."""
    if len(text) > MAX_BYTES:
        raise PolicyFileError(file, [Fault(1, f"longer than {MAX_BYTES >> 20} MiB", 1)])
    try:
        reading = Reading(go_duration)
        root = only_document(reading, compose(text))
        if environment is not None:
            expand(reading, root, environment)
        found = _document(reading, root)
    except YamlError as error:
        raise PolicyFileError(file, [error.fault]) from error
    if reading.faults:
        raise PolicyFileError(file, reading.faults)
    return found


def only_document(reading: Reading, documents: list[Node]) -> Node:
    if len(documents) == 1:
        return documents[0]
    place = documents[1] if documents else Node("!!null", 1, column=1)
    reading.fault_at(place, f"expected one document, found {len(documents)}")
    return Node("!!map", place.line, column=place.column)


def _document(reading: Reading, root: Node) -> PolicyDocument:
    if root.tag == "!!seq":
        return PolicyDocument(read_list(reading, root))
    keys = {key.value for key, _ in root.pairs}
    if keys & {"processors", "tail_sampling"}:
        return read_section(reading, find_section(reading, root))
    return read_section(reading, root)


def find_section(reading: Reading, root: Node) -> Node:
    """Find `tail_sampling` in a collector's configuration."""
    fields = reading.fields(root, "the configuration", ("tail_sampling", *_SECTIONS))
    if "tail_sampling" in fields:
        return fields.node("tail_sampling")
    return find_processor(reading, fields.node("processors"))


def find_processor(reading: Reading, processors: Node) -> Node:
    """Find the one processor `tail_sampling`, or `tail_sampling/NAME`, among others."""
    found = [(key, value) for key, value in processors.pairs if key.value.split("/")[0] == "tail_sampling"]
    if len(found) != 1:
        reading.fault_at(processors, f"expected one processor tail_sampling, found {len(found)}")
    return found[0][1] if found else Node("!!map", processors.line, column=processors.column)


def read_section(reading: Reading, node: Node) -> PolicyDocument:
    """Read the section `tail_sampling`."""
    fields = reading.fields(node, "tail_sampling", _KNOWN)
    for name, remedy in _REFUSED.items():
        if name in fields and fields.node(name).value not in {"", "0"}:
            fields.fault(name, f"{name} is not supported: {remedy}")
    strategy = fields.text("sampling_strategy")
    if strategy not in {"", "trace-complete"}:
        fields.fault("sampling_strategy", f"{strategy} is not supported: use trace-complete")
    notes = [f"{name} has no effect: the table holds the spans" for name in _NO_EFFECT if name in fields]
    policies = read_list(reading, fields.node("policies"), notes)
    return PolicyDocument(
        policies, fields.flag("sample_on_first_match"), fields.duration_ms("decision_wait"), tuple(notes)
    )


def read_list(reading: Reading, node: Node, notes: list[str] | None = None) -> tuple[Policy, ...]:
    """Read a list of policies."""
    reader = _Reader(reading, notes if notes is not None else [])
    items = reading.items(node, "policy")
    if not items:
        reading.fault_at(node, "no policies: without one, no trace would be kept")
    names: set[str] = set()
    found = []
    for item in items:
        policy = reader.policy(item, "", 0)
        if not policy.name:
            reading.fault_at(item, "a policy must have a name")
        if policy.name in names:
            reading.fault_at(item, f"duplicate policy name {policy.name!r}")
        names.add(policy.name)
        found.append(policy)
    return tuple(found)


@dataclass(slots=True)
class _Reader:
    reading: Reading
    notes: list[str]
    count: int = field(default=0)

    def policy(self, node: Node, above: str, place: int) -> Policy:
        """Read one policy and those below it."""
        self.count += 1
        if self.count > MAX_POLICIES:
            raise YamlError(node.line, f"more than {MAX_POLICIES} policies", node.column)
        fields = self.reading.fields(node, "policy", ("name", "type", *_TYPES))
        name, kind = fields.text("name"), fields.text("type")
        path = f"{above}/{place}:{name}" if above else name
        for other in fields.values:
            if other in _TYPES and other != kind:
                fields.fault(
                    other, f"policy {name}: settings of {other} in a policy of type {kind or 'none'}"
                )
        if kind not in _TYPES:
            known = ", ".join(_TYPES)
            fields.fault("type", f"policy {name}: unknown type {kind or 'none'!r}; known: {known}")
            return Policy(name, kind, path, And(()))
        settings = fields.node(kind)
        if kind in LEAVES:
            rule, inverted = LEAVES[kind](self.reading.fields(settings, kind, LEAVES[kind].keys), name)
            return Policy(name, kind, path, rule, inverted)
        return Policy(name, kind, path, self._combined(kind, settings, path, fields))

    def _combined(self, kind: str, settings: Node, path: str, above: Fields) -> Rule:
        nested = "/" in path
        if nested and kind in {"drop", "composite"}:
            above.fault("type", f"a policy of type {kind} must stand at the top")
        if kind == "not":
            fields = self.reading.fields(settings, kind, ("not_sub_policy",))
            if "not_sub_policy" not in fields:
                fields.fault("not_sub_policy", "not needs a not_sub_policy")
            return Not(self.policy(fields.node("not_sub_policy"), path, 0))
        key = _NESTED[kind]
        more = (
            ("max_total_spans_per_second", "policy_order", "rate_allocation") if kind == "composite" else ()
        )
        fields = self.reading.fields(settings, kind, (key, *more))
        items = fields.items(key, "policy")
        if not items:
            fields.fault(key, f"{kind} needs at least one policy in {key}")
        parts = tuple(self.policy(item, path, place) for place, item in enumerate(items))
        if kind == "composite":
            return self._composite(fields, parts, path)
        return And(parts) if kind == "and" else Drop(parts)

    def _composite(self, fields: Fields, parts: tuple[Policy, ...], path: str) -> Composite:
        most = fields.number("max_total_spans_per_second")
        if most <= 0:
            fields.fault("max_total_spans_per_second", "expected a number of spans above 0")
        names = [part.name for part in parts]
        percents: dict[str, int] = {}
        for item in fields.items("rate_allocation", "rate allocation"):
            share = self.reading.fields(item, "rate_allocation", ("policy", "percent"))
            percents[share.text("policy")] = share.number("percent")
            if share.text("policy") not in names:
                share.fault("policy", f"no policy {share.text('policy')!r} in composite_sub_policy")
        order = [self.reading.text(item) for item in fields.items("policy_order", "string")]
        if order and order != names[: len(order)]:
            self.notes.append(
                f"policy {path}: policies are tried in the order of composite_sub_policy, not policy_order"
            )
        equal = most / max(len(parts), 1)
        shares = [percents[name] / 100 * most if percents.get(name, 0) > 0 else equal for name in names]
        return Composite(most, parts, tuple(int(share) for share in shares))


def expand(reading: Reading, root: Node, environment: Mapping[str, str]) -> None:
    """Replace references to the environment in all values."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += [*node.items, *(value for _, value in node.pairs)]
        if node.is_scalar and "$" in node.value:
            _expand_one(reading, node, environment)


def _expand_one(reading: Reading, node: Node, environment: Mapping[str, str]) -> None:
    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] is None:
            reading.fault_at(node, f"{match[0]} is no reference: write ${{NAME}}, or $$ for a dollar sign")
            return ""
        if match[1] not in environment and match[2] is None:
            reading.fault_at(node, f"the environment has no {match[1]}: set it, or write ${{{match[1]}:-…}}")
        return environment.get(match[1], match[2] or "")

    is_whole = _REFERENCE.fullmatch(node.value) is not None
    node.value = _REFERENCE.sub(value, node.value)
    if is_whole and re.fullmatch(r"-?[0-9]+", node.value):
        node.tag = "!!int"
    elif is_whole and node.value in {"true", "false"}:
        node.tag = "!!bool"


_REFERENCE = re.compile(r"\$\$|\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")


_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_PIECE = re.compile(r"([0-9]++(?:\.[0-9]++)?+)(ns|us|µs|ms|s|m|h)")
_LONGEST = 40


def go_duration(text: str) -> int:
    """Read a duration such as `10s` or `1h30m`, in ns.

    >>> go_duration("1m30s"), go_duration("1.5ms"), go_duration("0")
    (90000000000, 1500000, 0)
    """
    if text == "0":
        return 0
    total, at = 0, 0
    while at < len(text) <= _LONGEST and (piece := _PIECE.match(text, at)):
        total += int(Decimal(piece[1]) * _UNITS[piece[2]])
        at = piece.end()
    if at == 0 or at < len(text):
        raise ValueError(f"invalid duration {text!r}: expected a number with unit, such as 10s")
    return total

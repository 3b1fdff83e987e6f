"""Every type of policy without parts: its keys, and the rule that its settings make.

    string_attribute {key: http.route, values: [/pay]}  →  Flag: "span:http.route" IN ('/pay') OR "resource:…"

`LEAVES` is the registry. An attribute is looked for in the span and in its resource; its value is text, which
counts as a number or truth value if it reads as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakerunner_sampling.policies.dynamic import DynamicSettings
from lakerunner_sampling.policies.hashing import DEFAULT_SALT
from lakerunner_sampling.policies.model import (
    Always,
    Budget,
    Deterministic,
    Dynamic,
    Flag,
    KeyField,
    Latency,
    Probabilistic,
    Rule,
    SpanCount,
)
from lakerunner_sampling.policies.ottl import Compiled, OttlError, check_pattern, compile_conditions
from lakerunner_sampling.shapes import STATUS_CODES, Attribute, Scope, quoted, text
from resources.yaml_nodes import Fields

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_MOST_TRACE_STATE = 256
"""Characters of a member of tracestate."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A type of policy."""

    keys: tuple[str, ...]
    read: Callable[[Fields, str], Rule]

    def __call__(self, fields: Fields, name: str) -> tuple[Rule, bool]:
        """Return the rule, and whether `invert_match` is set."""
        return self.read(fields, name), "invert_match" in self.keys and fields.flag("invert_match")


def _always(fields: Fields, name: str) -> Rule:  # noqa: ARG001 - it has no settings
    return Always()


def _at_least(fields: Fields, key: str, least: int) -> int:
    found = fields.number(key)
    if found < least:
        fields.fault(key, f"{key} must be {least} or more")
    return max(found, least)


def _latency(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    return Latency(fields.number("threshold_ms"), _at_least(fields, "upper_threshold_ms", 0))


def _span_count(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    return SpanCount(fields.number("min_spans"), _at_least(fields, "max_spans", 0))


def _span_duration(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    above, up_to = fields.number("threshold_ms"), _at_least(fields, "upper_threshold_ms", 0)
    took = "(end_ns - start_ns) // 1000000"
    condition = f"{took} > {above}" + (f" AND {took} <= {up_to}" if up_to else "")
    return Flag(condition, columns=frozenset({"start_ns", "end_ns"}))


def _status_code(fields: Fields, name: str) -> Rule:
    codes = []
    for node in fields.items("status_codes", "string"):
        if node.value.lower() not in STATUS_CODES or node.value != node.value.upper():
            fields.fault(
                "status_codes", f"policy {name}: unknown status code {node.value!r}: OK, ERROR or UNSET"
            )
        else:
            codes.append(STATUS_CODES.index(node.value.lower()))
    if not fields.items("status_codes", "string"):
        fields.fault("status_codes", f"policy {name}: expected at least one status code")
    listed = ", ".join(map(str, codes)) or "NULL"
    return Flag(f"coalesce(status_code, 0) IN ({listed})", columns=frozenset({"status_code"}))


def _trace_flags(fields: Fields, name: str) -> Rule:  # noqa: ARG001 - it has no settings
    return Flag("(coalesce(flags, 0) & 1) = 1", columns=frozenset({"flags"}))


def _probabilistic(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    return Probabilistic(fields.text("hash_salt") or DEFAULT_SALT, fields.decimal("sampling_percentage"))


def _rate_limiting(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    per_second = _at_least(fields, "spans_per_second", 0)
    return Budget("spans", per_second, fields.number("burst_capacity") or 2 * per_second)


def _bytes_limiting(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    per_second = _at_least(fields, "bytes_per_second", 0)
    return Budget("bytes", per_second, fields.number("burst_capacity") or 2 * per_second)


def _deterministic(fields: Fields, name: str) -> Rule:  # noqa: ARG001
    return Deterministic(_at_least(fields, "sample_rate", 1))


def _on_attribute(fields: Fields, name: str, condition: Callable[[str], str], on_span: str = "") -> Rule:
    """Build the flag of a condition on an attribute of the span or its resource."""
    key = fields.text("key")
    if not key:
        fields.fault("key", f"policy {name}: expected the key of an attribute")
    pair = Attribute(Scope.SPAN, key), Attribute(Scope.RESOURCE, key)
    span, resource = (quoted(each.column) for each in pair)
    found = f"({on_span.format(span)}{condition(span)}) OR ({condition(resource)})"
    return Flag(f"coalesce({found}, false)", attributes=pair, negate=fields.flag("invert_match"))


def _numeric(fields: Fields, name: str) -> Rule:
    """Zero is the same as no bound, as in the collector."""
    least, most = fields.number("min_value") or _LOWEST, fields.number("max_value") or _HIGHEST
    if (least, most) == (_LOWEST, _HIGHEST):
        fields.fault("min_value", f"policy {name}: min_value or max_value must be set, and not be 0")

    def condition(column: str) -> str:
        number = f"try_cast({column} AS BIGINT)"
        return (
            f"coalesce({number} BETWEEN {least} AND {most} AND CAST({number} AS VARCHAR) = {column}, false)"
        )

    return _on_attribute(fields, name, condition)


def _boolean(fields: Fields, name: str) -> Rule:
    wanted = "true" if fields.flag("value") else "false"
    return _on_attribute(fields, name, lambda column: f"coalesce({column} = '{wanted}', false)")


def _string(fields: Fields, name: str) -> Rule:
    values = [node.value for node in fields.items("values", "string")]
    if not values:
        fields.fault("values", f"policy {name}: expected at least one value")
    if not fields.flag("enabled_regex_matching"):
        listed = ", ".join(text(value) for value in values if value) or "NULL"
        return _on_attribute(fields, name, lambda column: f"coalesce({column} IN ({listed}), false)")
    for value in values:
        try:
            check_pattern(value, 0)
        except OttlError as error:
            fields.fault("values", f"policy {name}: {error}")

    def condition(column: str) -> str:
        matches = " OR ".join(f"regexp_matches({column}, {text(value)})" for value in values) or "false"
        return f"coalesce({matches}, false)"

    return _on_attribute(fields, name, condition, on_span="coalesce({0} <> '', false) AND ")


def _trace_state(fields: Fields, name: str) -> Rule:
    key = fields.text("key")
    if not key:
        fields.fault("key", f"policy {name}: expected a key of tracestate")
    values = [node.value for node in fields.items("values", "string")]
    fitting = [value for value in values if value and len(key) + len(value) < _MOST_TRACE_STATE]
    listed = "|".join(map(_literal, fitting))
    pattern = f"(?:^|,)[ \\t]*{_literal(key)}=(?:{listed})[ \\t]*(?:,|$)"
    condition = f"coalesce(regexp_matches(trace_state, {text(pattern)}), false)" if fitting else "false"
    return Flag(condition, columns=frozenset({"trace_state"}))


def _literal(value: str) -> str:
    """Write a text as a regular expression that matches it alone."""
    return "".join(each if each.isascii() and each.isalnum() else f"\\x{{{ord(each):x}}}" for each in value)


def _ottl(fields: Fields, name: str) -> Rule:
    found: list[Compiled] = []
    for key, of_events in (("span", False), ("spanevent", True)):
        for node in fields.items(key, "string"):
            try:
                found.append(compile_conditions([node.value], of_events))
            except OttlError as error:
                fields.fault(key, f"policy {name}: {error} (character {error.column} of {node.value!r})")
    if not fields.items("span", "string") and not fields.items("spanevent", "string"):
        fields.fault("span", f"policy {name}: expected at least one OTTL condition")
    if fields.text("error_mode") not in {"", "ignore", "silent", "propagate"}:
        fields.fault("error_mode", f"policy {name}: expected error_mode ignore, silent or propagate")
    return Flag(
        " OR ".join(each.sql for each in found) or "false",
        tuple(sorted({attribute for each in found for attribute in each.attributes})),
        frozenset(column for each in found for column in each.columns),
    )


_COMMON = (
    "field_list", "use_trace_length", "adjustment_interval", "weight", "age_out_value", "max_keys",
    "burst_multiple", "burst_detection_delay",
)  # fmt: skip
_INTRINSIC = {
    "name": ("name", "name"),
    "kind": ("CAST(kind AS VARCHAR)", "kind"),
    "status_code": ("CAST(coalesce(status_code, 0) AS VARCHAR)", "status_code"),
}


def _dynamic(fields: Fields, name: str) -> Rule:
    weight = fields.decimal("weight") or 0.5
    if not 0 < weight < 1:
        fields.fault("weight", f"policy {name}: weight must lie between 0 and 1")
    settings = DynamicSettings(
        goal_rate=fields.decimal("goal_sample_rate"),
        goal_per_second=fields.decimal("goal_throughput_per_sec"),
        initial_rate=fields.decimal("initial_sampling_rate") or 10.0,
        interval_s=(fields.duration_ms("adjustment_interval") or 15_000) / 1000,
        weight=weight,
        age_out=fields.decimal("age_out_value") or weight,
        max_keys=fields.number("max_keys") or 500,
        burst_multiple=fields.decimal("burst_multiple") or 2.0,
        burst_delay=fields.number("burst_detection_delay") or 3,
    )
    names = [node.value for node in fields.items("field_list", "string")]
    if not names:
        fields.fault("field_list", f"policy {name}: expected at least one field in field_list")
    return Dynamic(tuple(map(_key_field, names)), fields.flag("use_trace_length"), settings)


def _ema_dynamic(fields: Fields, name: str) -> Rule:
    if fields.decimal("goal_sample_rate") < 1:
        fields.fault("goal_sample_rate", f"policy {name}: goal_sample_rate must be 1 or more")
    return _dynamic(fields, name)


def _ema_throughput(fields: Fields, name: str) -> Rule:
    if fields.decimal("goal_throughput_per_sec") <= 0:
        fields.fault("goal_throughput_per_sec", f"policy {name}: goal_throughput_per_sec must be above 0")
    return _dynamic(fields, name)


def _key_field(field: str) -> KeyField:
    of_root = field.startswith("root.")
    key = field.removeprefix("root.")
    if key in _INTRINSIC:
        sql, column = _INTRINSIC[key]
        return KeyField(sql, of_root, columns=frozenset({column}))
    pair = Attribute(Scope.SPAN, key), Attribute(Scope.RESOURCE, key)
    return KeyField(f"coalesce({', '.join(quoted(each.column) for each in pair)})", of_root, pair)


LEAVES: Mapping[str, Leaf] = {
    "always_sample": Leaf((), _always),
    "latency": Leaf(("threshold_ms", "upper_threshold_ms"), _latency),
    "numeric_attribute": Leaf(("key", "min_value", "max_value", "invert_match"), _numeric),
    "probabilistic": Leaf(("hash_salt", "sampling_percentage"), _probabilistic),
    "status_code": Leaf(("status_codes",), _status_code),
    "string_attribute": Leaf(
        ("key", "values", "enabled_regex_matching", "cache_max_size", "invert_match"), _string
    ),
    "rate_limiting": Leaf(("spans_per_second", "burst_capacity"), _rate_limiting),
    "bytes_limiting": Leaf(("bytes_per_second", "burst_capacity"), _bytes_limiting),
    "span_count": Leaf(("min_spans", "max_spans"), _span_count),
    "boolean_attribute": Leaf(("key", "value", "invert_match"), _boolean),
    "ottl_condition": Leaf(("error_mode", "span", "spanevent"), _ottl),
    "trace_state": Leaf(("key", "values"), _trace_state),
    "trace_flags": Leaf((), _trace_flags),
    "span_duration": Leaf(("threshold_ms", "upper_threshold_ms"), _span_duration),
    "deterministic": Leaf(("sample_rate",), _deterministic),
    "ema_dynamic": Leaf(("goal_sample_rate", *_COMMON), _ema_dynamic),
    "ema_throughput": Leaf(("goal_throughput_per_sec", "initial_sampling_rate", *_COMMON), _ema_throughput),
}
"""Leaves by type: those of the collector, then ours."""

"""OTLP series get a canonical label set, made once per distinct series of a slice.

A series has labels from three sides, which are put together here:

    own      attributes of the data point       {method: GET, pod: a}
    owner    resource and scope                 {job: shop/web, instance: i-1, pod: b, otel_scope_name: http}
    family   metric                             {__name__: http_requests_total}
    →  {__name__: http_requests_total, instance: i-1, job: shop/web, method: GET,
        otel_scope_name: http, pod: a, resource_pod: b}

Rules, so that nothing is lost and the set depends on nothing but the series itself:

* Two keys of one side that translate to one name join their values with `;` in the order of the keys.
* `__name__`, `job`, `instance` and `otel_scope_*` belong to metric, resource and scope: an attribute of that
  name becomes `exported_<name>`, as in a scrape.
* An attribute of a resource whose name is taken becomes `resource_<name>`, one of a scope, always called
  `otel_scope_<key>`, gets the prefix again. Prefixes repeat until the name is free.
* `job` and `instance` come from service.namespace/service.name and service.instance.id; those stay labels
  too, as all resource attributes do: without them `a/b` + `c` and `a` + `b/c` would be one series.
* An empty value is no label.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import NamedTuple

import xxhash

Label = tuple[str, str, bytes, str]
"""Name, value, bytes that go into the hash, form in the text."""
Labels = dict[str, Label]
Attribute = tuple[str, Label]
"""Key as sent, and the label it would be."""

NAME, TYPE, UNIT = "__name__", "__type__", "__unit__"
SCOPE = "otel_scope_"
_JOB_OF = ("service.namespace", "service.name")
_INSTANCE_OF = "service.instance.id"
_name_of = itemgetter(0)
_quoted = json.JSONEncoder(ensure_ascii=False).encode
"""Encoder that writes text as `labels_to_text` does."""


class Side(NamedTuple):
    """Labels of one side; attributes may not displace those of `system`."""

    labels: list[Label]
    names: frozenset[str]
    system: frozenset[str] = frozenset()


@dataclass(slots=True)
class SeriesTable:
    """Distinct series of a slice, coded in order of first appearance."""

    label_name: Callable[[str], str]
    type_and_unit: bool = False
    texts: list[str] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    _codes: dict[str, int] = field(default_factory=dict)
    _names: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    _reserved: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.label_name = cache(self.label_name)
        self._reserved = frozenset((NAME, TYPE, UNIT) if self.type_and_unit else (NAME,))

    def attribute(self, key: str, value: str) -> Attribute:
        return key, _label(self.label_name(key), value)

    def own(self, attributes: Sequence[Attribute]) -> Side:
        """Make the side of a data point's attributes."""
        labels = [label for _, label in attributes if label[1]]
        shape = tuple(map(_name_of, labels))
        names = self._names.get(shape)
        if names is None:
            names = self._names[shape] = frozenset(shape)
        if len(names) < len(labels):
            labels = list(_join(attributes).values())
        return Side(labels, names)

    def owner(
        self, resource: Sequence[tuple[str, str]], scope: Sequence[tuple[str, str]], about: Mapping[str, str]
    ) -> Side:
        """Make the side of resource and scope; `about` holds the scope's name, version, schema_url."""
        labels = _present({f"{SCOPE}{key}": value for key, value in about.items()})
        _add(labels, _join(self.attribute(f"{SCOPE}{key}", value) for key, value in scope), SCOPE)
        labels |= _target(resource)
        system = frozenset(labels)
        own = _join(self.attribute(key, value) for key, value in resource)
        _add(labels, own, "resource_", self._reserved)
        return Side(list(labels.values()), frozenset(labels), system)

    def family(self, name: str, prometheus_type: str, unit: str) -> Side:
        """Make the side of the metric itself."""
        labels = {NAME: name, TYPE: prometheus_type, UNIT: unit} if self.type_and_unit else {NAME: name}
        return Side(list(_present(labels).values()), self._reserved)

    def add(self, own: Side, owner: Side, family: Side) -> int:
        """Return the code of the series with these labels."""
        if own.names.isdisjoint(owner.names) and own.names.isdisjoint(self._reserved):
            labels = own.labels + owner.labels + family.labels
        else:
            labels = self._resolve(own, owner, family)
        labels.sort(key=_name_of)
        text = f"[{','.join([label[3] for label in labels])}]"
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            digest = xxhash.xxh3_128_digest(b"".join([label[2] for label in labels]))
            self.ids.append(int.from_bytes(digest[:8], "big", signed=True))
            self.texts.append(text)
        return code

    def _resolve(self, own: Side, owner: Side, family: Side) -> list[Label]:
        labels = _by_name(family.labels)
        labels |= _by_name(label for label in owner.labels if label[0] in owner.system)
        _add(labels, _by_name(own.labels), "exported_", self._reserved)
        _add(labels, _by_name(label for label in owner.labels if label[0] not in owner.system), "resource_")
        return list(labels.values())


def _label(name: str, value: str) -> Label:
    return name, value, _prefix_length(name) + _prefix_length(value), f"[{_quoted(name)},{_quoted(value)}]"


def _prefix_length(text: str) -> bytes:
    """Write text as `stream_id` hashes it, label by label, since most labels are shared by many series."""
    raw = text.encode()
    return len(raw).to_bytes(4, "little") + raw


def _by_name(labels: Iterable[Label]) -> Labels:
    return {label[0]: label for label in labels}


def _present(labels: Mapping[str, str]) -> Labels:
    return {name: _label(name, value) for name, value in labels.items() if value}


def _join(attributes: Iterable[Attribute]) -> Labels:
    """Make labels of attributes; join the values of keys that become one name, in the order of keys."""
    labels: Labels = {}
    for _, label in sorted(attributes, key=_name_of):
        name, value, *_ = label
        if name in labels and value:
            labels[name] = _label(name, f"{labels[name][1]};{value}")
        elif value:
            labels[name] = label
    return labels


def _target(resource: Sequence[tuple[str, str]]) -> Labels:
    """Return `job` and `instance` of a resource; the first of a repeated key counts."""
    values = dict(reversed(resource))
    namespace, service = (values.get(key, "") for key in _JOB_OF)
    job = f"{namespace}/{service}" if namespace else service
    return _present({"job": job if service else "", "instance": values.get(_INSTANCE_OF, "")})


def _add(labels: Labels, new: Mapping[str, Label], prefix: str, reserved: Collection[str] = ()) -> None:
    """Add labels under their names where these are free, else with the prefix until they are."""
    late = sorted(name for name in new if name in labels or name in reserved)
    labels |= {name: label for name, label in new.items() if name not in labels and name not in reserved}
    for name in late:
        free = prefix + name
        while free in labels:
            free = prefix + free
        labels[free] = _label(free, new[name][1])

"""Attribute keys become column names.

A key becomes `{resource|scope|attr}_` plus its lower-case form with everything but letters and digits as `_`.
When several keys or kinds compete for one name, one of them gets it and the others get a suffix that depends
only on themselves, so the same set of attributes gives the same columns wherever it is written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import xxhash

from resources.lake.columns import FIELD_KEY, FIELD_KIND, FIELD_SCOPE
from resources.lake.segment_file import OVERFLOW_COLUMNS

PREFIXES = {"resource": "resource_", "scope": "scope_", "record": "attr_"}
MAX_COLUMNS = 1000
"""Attribute columns of one scope in one segment; the rest, least frequent first, goes to the overflow map."""

RESERVED = frozenset(
    {"scope_name", "scope_version", "scope_schema_url", "resource_schema_url", *OVERFLOW_COLUMNS.values()}
)
"""Columns of the format itself whose names an attribute could have."""

_UNSAFE = re.compile(r"[^a-z0-9]")
_SCOPE, _KEY, _KIND = FIELD_SCOPE.encode(), FIELD_KEY.encode(), FIELD_KIND.encode()


@dataclass(frozen=True, slots=True, order=True)
class Attribute:
    """Identity of a flat column: one key of one scope with values of one OTLP kind."""

    scope: str
    key: str
    kind: str

    def field(self, name: str, data_type: pa.DataType) -> pa.Field:
        """Return the Arrow field, with the attribute in its metadata."""
        metadata = {_SCOPE: self.scope.encode(), _KEY: self.key.encode(), _KIND: self.kind.encode()}
        return pa.field(name, data_type, metadata=metadata)


def attribute_of(field: pa.Field) -> Attribute | None:
    """Return the attribute of a decoded column; None for columns of the format itself."""
    metadata = field.metadata or {}
    if _KEY not in metadata:
        return None
    return Attribute(metadata[_SCOPE].decode(), metadata[_KEY].decode(), metadata[_KIND].decode())


def plain_name(scope: str, key: str) -> str:
    """Return the column name of a key that has no competitor.

    >>> plain_name("record", "http.Status-Code"), plain_name("resource", "service.name")
    ('attr_http_status_code', 'resource_service_name')
    """
    return PREFIXES[scope] + _UNSAFE.sub("_", key.lower())


def assign(attributes: Iterable[Attribute], reserved: Collection[str] = RESERVED) -> dict[Attribute, str]:
    """Name every attribute, uniquely and independently of their order.

    >>> a, b = Attribute("record", "a.b", "string"), Attribute("record", "a.b", "int")
    >>> assign([b, a])[a], assign([b, a])[b]
    ('attr_a_b', 'attr_a_b__int')
    """
    wanted: dict[str, list[Attribute]] = defaultdict(list)
    for attribute in set(attributes):
        wanted[plain_name(attribute.scope, attribute.key)].append(attribute)
    names: dict[Attribute, str] = {}
    taken = set(reserved) | set(wanted)
    for name in sorted(wanted):
        rivals = sorted(wanted[name], key=_precedence)
        owner = None if name in reserved else rivals[0]
        for attribute in rivals:
            if attribute == owner:
                names[attribute] = name
                continue
            same_key = owner is not None and attribute.key == owner.key
            names[attribute] = _free(
                f"{name}__{attribute.kind if same_key else _digest(attribute)}", attribute, taken
            )
            taken.add(names[attribute])
    return names


def _precedence(attribute: Attribute) -> tuple[bool, bool, str, str]:
    """Rank text before other kinds, plain dotted keys before odd spellings."""
    odd = _UNSAFE.sub(".", attribute.key) != attribute.key
    return (odd, attribute.kind != "string", attribute.key, attribute.kind)


def _digest(attribute: Attribute) -> str:
    return xxhash.xxh3_64_hexdigest(f"{attribute.kind}\0{attribute.key}".encode())[:8]


def _free(name: str, attribute: Attribute, taken: Collection[str]) -> str:
    return name if name not in taken else f"{name}__{xxhash.xxh3_64_hexdigest(repr(attribute).encode())}"

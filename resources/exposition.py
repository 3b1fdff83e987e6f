"""Metrics are written in Prometheus' text format.

One place escapes label values and spells a family, so that an organisation called `a"b` breaks no scrape.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_LABEL = r'[a-zA-Z_]\w*+="(?:[^"\\\n]|\\["\\n])*+"'
_SERIES = re.compile(rf"([a-zA-Z_:][\w:]*)(\{{{_LABEL}(,{_LABEL})*+\}})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Family:
    """Metric: its name, type, one line of help, and its samples by series."""

    name: str
    kind: str
    help: str
    samples: Mapping[str, float]

    def render(self) -> str:
        head = [f"# HELP {self.name} {self.help}"] if self.help else []
        lines = [f"{series} {number(value)}" for series, value in self.samples.items()]
        return "\n".join([*head, f"# TYPE {self.name} {self.kind}", *lines, ""])


def series(name: str, **labels: object) -> str:
    r"""Write a series with its labels.

    >>> series("up"), series("rows", org='a"b', signal="logs")
    ('up', 'rows{org="a\\"b",signal="logs"}')
    """
    if not labels:
        return name
    pairs = [f'{key}="{escaped(value)}"' for key, value in labels.items()]
    return f"{name}{{{','.join(pairs)}}}"


def escaped(value: object) -> str:
    return str(value).translate(_ESCAPED)


def number(value: float) -> str:
    """Write whole numbers in full (`%g` would round a byte count).

    >>> number(12345678), number(0.25), number(float("inf")), number(float("nan"))
    ('12345678', '0.25', '+Inf', 'NaN')
    """
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def family_name(text: str) -> str:
    """Return the metric of a series; empty when `text` is not a series.

    >>> family_name('rows_total{signal="logs"}'), family_name('rows{oops"}')
    ('rows_total', '')
    """
    found = _SERIES.fullmatch(text)
    return found.group(1) if found else ""


def families(samples: Mapping[str, float]) -> list[Family]:
    """Group series by metric; `_total` makes a counter, anything else a gauge; other text is left out."""
    named = sorted((family_name(text), text) for text in samples)
    groups = groupby((pair for pair in named if pair[0]), key=lambda pair: pair[0])
    return [_family(name, (text for _, text in members), samples) for name, members in groups]


def render(found: Iterable[Family]) -> str:
    return "".join(family.render() for family in found)


def _family(name: str, members: Iterable[str], samples: Mapping[str, float]) -> Family:
    kind = "counter" if name.endswith("_total") else "gauge"
    return Family(name, kind, "", {text: samples[text] for text in members})

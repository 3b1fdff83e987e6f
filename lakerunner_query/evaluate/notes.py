"""Annotations: what an answer wants said about itself, gathered while it is computed.

    PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)

As in Prometheus the text without its place decides what is the same: of equal ones the last place is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from lakerunner_query.gotext.strconv import general
from lakerunner_query.lang.promql.ast import NOWHERE, Span

Kind = Literal["warning", "info"]


@dataclass(frozen=True, slots=True)
class Forced:
    """Which buckets of classic histograms had to be raised to be monotonic; told together for all steps."""

    lowest: float
    highest: float
    largest_difference: float
    from_ms: int
    to_ms: int
    samples: int = 1

    def joined(self, other: Forced) -> Forced:
        return Forced(
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
            max(self.largest_difference, other.largest_difference),
            min(self.from_ms, other.from_ms),
            max(self.to_ms, other.to_ms),
            self.samples + other.samples,
        )

    def __str__(self) -> str:
        return (
            f", from buckets {general(self.lowest)} to {general(self.highest)}, with a max diff of "
            f"{self.largest_difference:.2g}, over {self.samples} samples from {_second(self.from_ms)} "
            f"to {_second(self.to_ms)}"
        )


@dataclass(frozen=True, slots=True)
class Annotation:
    kind: Kind
    message: str
    """Without `PromQL warning: ` and without the place."""
    span: Span = field(default=NOWHERE)
    forced: Forced | None = None

    @property
    def base(self) -> str:
        return f"PromQL {self.kind}: {self.message}"

    def render(self, text: str) -> str:
        """As people see it, the place told from the text of the query."""
        line = text.count("\n", 0, self.span.start) + 1
        before = text[text.rfind("\n", 0, self.span.start) + 1 : self.span.start]
        column = len(before.encode("utf-8", "surrogateescape")) + 1  # Prometheus counts bytes
        return f"{self.base}{self.forced or ''} ({line}:{column})"


class Annotations:
    """Grows while a query is evaluated; the one thing in evaluation that is not a value."""

    def __init__(self, first: Iterable[Annotation] = ()) -> None:
        self._found: dict[str, Annotation] = {}
        for annotation in first:
            self.add(annotation)

    def add(self, annotation: Annotation) -> None:
        earlier = self._found.get(annotation.base)
        if earlier is not None and earlier.forced is not None and annotation.forced is not None:
            annotation = replace(annotation, forced=annotation.forced.joined(earlier.forced))
        self._found[annotation.base] = annotation

    def warn(self, message: str, span: Span) -> None:
        self.add(Annotation("warning", message, span))

    def inform(self, message: str, span: Span) -> None:
        self.add(Annotation("info", message, span))

    def all(self) -> tuple[Annotation, ...]:
        return tuple(self._found.values())


def _second(time_ms: int) -> str:
    """RFC 3339; milliseconds are cut towards zero, as Go's division does."""
    second = abs(time_ms) // 1000 * (1 if time_ms >= 0 else -1)
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

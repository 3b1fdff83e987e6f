"""Whether an answer is what a logqltest script expects: values to 1e-9, everything else exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lakerunner_query.gotext.strconv import label_set
from lakerunner_query.vectors.vector import Labels
from tests.golden.logqltest_script import Eval, Row

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer in the shape in which scripts have it."""

    rows: tuple[Row, ...] = ()
    number: float | None = None
    failure: str | None = None


def mismatch(expected: Eval, found: Outcome) -> str | None:
    """What is wrong, or None."""
    if expected.failure is not None:
        if found.failure is None:
            return f"expected an error with {expected.failure.text!r}, found {_shown(found)}"
        fits = expected.failure.fits(found.failure)
        return None if fits else f"expected an error with {expected.failure.text!r}, found {found.failure!r}"
    if found.failure is not None:
        return f"error: {found.failure}"
    if expected.number is not None or found.number is not None:
        return _of_numbers(expected.number, found)
    if expected.is_ordered:
        return _of_rows(expected.rows, found.rows)
    return _of_rows(sorted(expected.rows, key=_labels), sorted(found.rows, key=_labels))


def close(expected: float | None, found: float | None) -> bool:
    if expected is None or found is None:
        return expected is found
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _of_numbers(expected: float | None, found: Outcome) -> str | None:
    if expected is None or found.number is None:
        return f"expected {'series' if expected is None else expected}, found {_shown(found)}"
    return None if close(expected, found.number) else f"expected {expected}, found {found.number}"


def _of_rows(expected: Sequence[Row], found: Sequence[Row]) -> str | None:
    names, others = [row.labels for row in expected], [row.labels for row in found]
    if names != others:
        return f"expected series {_sets(names)}, found {_sets(others)}"
    for wanted, row in zip(expected, found, strict=True):
        if len(wanted.values) != len(row.values) or not all(map(close, wanted.values, row.values)):
            return f"{label_set(row.labels)}: expected {wanted.values}, found {row.values}"
    return None


def _labels(row: Row) -> Labels:
    return row.labels


def _sets(labels: Sequence[Labels]) -> str:
    return ", ".join(map(label_set, labels)) or "none"


def _shown(found: Outcome) -> str:
    if found.number is not None:
        return str(found.number)
    return "; ".join(f"{label_set(row.labels)} {row.values}" for row in found.rows) or "nothing"

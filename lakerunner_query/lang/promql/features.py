"""Which of the language's optional parts a query may use, named as Prometheus' feature flags."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """All parts are optional for a reason: Prometheus may still change or drop them."""

    experimental_functions: bool = True
    duration_expressions: bool = True
    extended_range_selectors: bool = True
    """`anchored` and `smoothed`."""
    fill_modifiers: bool = True
    """`fill(x)`, `fill_left(x)`, `fill_right(x)` between vectors."""

    @classmethod
    def named(cls, flags: Iterable[str]) -> Features:
        """What a list such as `promql-duration-expr,promql-experimental-functions` switches on."""
        wanted = set(flags)
        unknown = wanted - _FLAGS.keys()
        if unknown:
            raise ValueError(f"unknown PromQL features {sorted(unknown)}, there are {sorted(_FLAGS)}")
        return cls(**{part: flag in wanted for flag, part in _FLAGS.items()})


_FLAGS = {
    "promql-experimental-functions": "experimental_functions",
    "promql-duration-expr": "duration_expressions",
    "promql-extended-range-selectors": "extended_range_selectors",
    "promql-binop-fill-modifiers": "fill_modifiers",
}
ALL = Features()
STABLE = Features.named(())

"""Rules of an organisation are read from the index and evaluated together.

    shop_errors@3  from logs      ┐
    shop_took@1    from logs      ├→  one segment of samples, swapped whole with its hour
    …                             ┘

A rule that cannot be evaluated fails nothing else: it has no metrics, and says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from lakerunner_assets.materialized.log_rules import derive_logs
from lakerunner_assets.materialized.rule_cells import RuleCells, RuleOutcome, RuleTask, RuleTextError
from lakerunner_assets.materialized.sample_rules import derive_samples
from lakerunner_assets.materialized.span_rules import derive_spans
from lakerunner_assets.materialized.standing import NotAddableError, Standing, add_standing
from lakerunner_query.errors import QueryError
from lakerunner_query.protocol.units import SegmentRef
from lakerunner_query.rules.catalog import derived_of
from lakerunner_query.worker.shared.segment_file import SegmentsInPlace
from resources.duckdb import DuckLimits, DuckSession
from resources.index.rule_types import RuleKind, StoredRule
from resources.lake.layout import Signal

MEMORY_MB = 512
"""Memory of DuckDB in a task."""


def rules_origin(signal: Signal) -> str:
    """Return the origin of the segments of rules; a change of how they are derived takes the next number.

    >>> rules_origin(Signal.LOGS)
    'derived-logs@2'
    """
    return f"derived-{signal.value}@2"


def rules_of(stored: Iterable[StoredRule]) -> dict[tuple[str, Signal], tuple[RuleTask, ...]]:
    """Return the rules of derived metrics by organisation and source, by their ids."""
    found: dict[tuple[str, Signal], list[RuleTask]] = defaultdict(list)
    for one in stored:
        if one.kind is RuleKind.DERIVED and not one.retired:
            metric = derived_of(one)
            found[one.org, metric.source].append(RuleTask(one.rule_id, one.version, metric))
    return {key: tuple(sorted(rules, key=lambda rule: rule.rule_id)) for key, rules in found.items()}


@dataclass(frozen=True, slots=True)
class Derived:
    """Metrics of all rules of a signal in one hour."""

    tables: list[pa.Table]
    """Samples in the form of decoded metrics."""
    outcomes: tuple[RuleOutcome, ...]
    can_grow: bool
    """True if records can be added to it: every rule was evaluated."""


def derive_rules(
    rules: Sequence[RuleTask],
    signal: Signal,
    own: Sequence[SegmentRef],
    beside: Sequence[SegmentRef],
    hour_ns: int,
    most: int,
    folder: Path,
    standing: Standing | None = None,
) -> Derived:
    """Evaluate all rules; with `standing`, over the records that were added to what stands."""
    place = SegmentsInPlace(folder)
    with _duckdb(folder) as session:
        evaluate: Mapping[Signal, Callable[[Sequence[RuleTask]], dict[int, RuleCells]]] = {
            Signal.LOGS: lambda some: derive_logs(some, own, hour_ns, most, place, session),
            Signal.TRACES: lambda some: derive_spans(some, own, beside, hour_ns, most, place),
            Signal.METRICS: lambda some: derive_samples(some, own, beside, hour_ns, most, place),
        }
        cells, wrong = _evaluate_all(rules, evaluate[signal])
    if standing is not None:
        if wrong:
            raise NotAddableError("; ".join(wrong.values()))
        add_standing(cells, rules, standing, folder)
    tables: list[pa.Table] = []
    outcomes: list[RuleOutcome] = []
    for rule in rules:
        found = cells.get(rule.rule_id, RuleCells(hour_ns, most, with_values=False))
        position = sum(table.num_rows for table in tables)
        mine = list(found.tables(rule.metric, position))
        tables += mine
        refusal = wrong.get(rule.rule_id, found.refusal)
        if standing is not None and not found.is_exact:
            raise NotAddableError(f"{rule.metric.metric}: a sum needs more than two doubles")
        outcomes.append(
            RuleOutcome(
                rule.rule_id, rule.version, rule.metric.metric, sum(table.num_rows for table in mine),
                found.series, found.errors, refusal, tuple(sorted(found.refusals)),
            )
        )  # fmt: skip
    return Derived(tables, tuple(outcomes), not wrong)


def _evaluate_all(
    rules: Sequence[RuleTask], evaluate: Callable[[Sequence[RuleTask]], dict[int, RuleCells]]
) -> tuple[dict[int, RuleCells], dict[int, str]]:
    """Evaluate the rules together; one after the other where that fails, so that only the wrong ones fail."""
    try:
        return evaluate(rules), {}
    except (QueryError, RuleTextError) as error:
        if len(rules) == 1:
            return {}, {rules[0].rule_id: str(error)}
    cells: dict[int, RuleCells] = {}
    wrong: dict[int, str] = {}
    for rule in rules:
        found, failed = _evaluate_all([rule], evaluate)
        cells |= found
        wrong |= failed
    return cells, wrong


class _LaterSession(DuckSession):
    """DuckDB that starts with its first statement: most rules are counted from pages."""

    def __init__(self, limits: DuckLimits) -> None:
        self._limits = limits
        self._is_open = False

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self._is_open:
            self._is_open = True  # starting takes a cursor, too
            super().__init__(self._limits)
        with super().cursor() as cursor:
            yield cursor

    def close(self) -> None:
        if self._is_open:
            super().close()


@contextmanager
def _duckdb(folder: Path) -> Iterator[DuckSession]:
    """Give a DuckDB that reads this folder only."""
    session = _LaterSession(DuckLimits(MEMORY_MB, 1, folder / "spill", (folder,)))
    try:
        yield session
    finally:
        session.close()

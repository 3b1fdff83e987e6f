"""A policy set decides a batch of traces at once, from their aggregates.

    drop policies    any of them drops          →  dropped
    the others       any of them keeps          →  kept; the first with the least threshold is named
    none             →  not kept

`sample_on_first_match` names the first that keeps instead. `inverted_decisions` brings back what collectors
once did: a policy with `invert_match` that speaks against a trace overrules those that keep it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_sampling.policies.dynamic import DynamicState
from lakerunner_sampling.policies.hashing import ALWAYS, NEVER, threshold_of
from lakerunner_sampling.policies.limits import budget_of, elapsed_s
from lakerunner_sampling.policies.model import (
    BYTES,
    DECISIONS,
    RV,
    TH,
    AggregateColumn,
    Always,
    And,
    Budget,
    Composite,
    DecisionMoment,
    Decisions,
    Deterministic,
    Drop,
    Dynamic,
    Flag,
    Latency,
    LimiterMemory,
    Not,
    Policy,
    PolicyError,
    Probabilistic,
    SpanCount,
)
from lakerunner_sampling.policies.votes import (
    Batch,
    Budgets,
    Chance,
    Float64s,
    Voting,
    arrays_of,
    cell_count,
    cells,
    strictness,
)
from lakerunner_sampling.shapes import Wanted
from resources.arrays import Flags, Int64s

MOST_CELLS = 1024
NO_POLICY, NO_MATCH = "", "no policy matched"
_BASE_COLUMNS = frozenset({"trace_id", "parent_span_id", "start_ns", "end_ns"})


@dataclass(frozen=True)
class PolicySet:
    """Policies in order, and how their votes are combined."""

    policies: tuple[Policy, ...]
    first_match: bool = False
    uses_tracestate: bool = True
    inverted_decisions: bool = False

    def __post_init__(self) -> None:
        if (found := cell_count(self.policies)) > MOST_CELLS:
            raise PolicyError(
                f"the policies draw lots in {found} combinations, more than {MOST_CELLS}, so that their "
                "probability cannot be computed; give `probabilistic` policies the same hash_salt"
            )
        wrapped = [
            each.name for each in self._all() if isinstance(each.rule, Not) and each.rule.part.inverted
        ]
        if self.inverted_decisions and wrapped:
            raise PolicyError(
                f"policy {wrapped[0]}: `not` around a policy with invert_match has no effect under "
                "inverted_decisions; remove the one or the other"
            )

    def columns(self) -> tuple[AggregateColumn, ...]:
        """Return the aggregates that the policies need beside `BASE`."""
        return tuple(self._compiled[0].values())

    def wanted(self) -> Wanted:
        """Return the columns of spans that the aggregates read."""
        columns, attributes = set(_BASE_COLUMNS), set()
        for policy in self._all():
            parts = policy.rule.fields if isinstance(policy.rule, Dynamic) else (policy.rule,)
            for part in parts:
                columns |= getattr(part, "columns", frozenset())
                attributes |= set(getattr(part, "attributes", ()))
        columns |= {"trace_state"} if self.uses_tracestate else set()
        columns |= {"size"} if BYTES.name in self._compiled[0] else set()
        return Wanted(frozenset(columns), tuple(sorted(attributes)))

    def decide(self, traces: pa.Table, moment: DecisionMoment, memory: LimiterMemory) -> Decisions:
        """Decide every trace of a batch; the same traces and memory give the same decisions."""
        batch, chance = self._drawn(traces, self._salts)
        rates, learned = self._rates(traces, moment, memory)
        budgets = self._budgets(moment, memory)
        voting = Voting(batch, chance, budgets, rates)
        outcome = self._outcome(voting)
        table = self._table(traces, outcome, self._probability(voting))
        return Decisions(table, self._remember(memory, moment, budgets, learned))

    def votes(self, traces: pa.Table, moment: DecisionMoment, memory: LimiterMemory) -> list[dict[str, Any]]:
        """Return the votes of all policies and their parts on the first trace."""
        batch, chance = self._drawn(traces, self._salts)
        rates, _ = self._rates(traces, moment, memory)
        voting = Voting(batch, chance, self._budgets(moment, memory), rates)
        everything = np.ones(len(batch), np.bool_)
        return [
            {"name": each.name, "type": each.type, "depth": each.path.count("/"),
             "keeps": bool(voting.vote(each, everything)[0])}
            for each in self._all()
        ]  # fmt: skip

    def decide_early(self, traces: pa.Table) -> pa.Table:
        """Return the decisions, all of them to keep, that later spans cannot change."""
        if not self.early or not traces.num_rows:
            return DECISIONS.empty_table()
        batch, chance = self._drawn(traces, set())
        voting = Voting(batch, chance, Budgets({}), {})
        alone = PolicySet(self.early, True, self.uses_tracestate)
        outcome = alone._outcome(voting)
        rows = pa.array(outcome.keep)
        probability = 1 - batch.sampled_before / NEVER
        return alone._table(traces, outcome, probability).filter(rows)

    def _drawn(self, traces: pa.Table, salts: set[str]) -> tuple[Batch, Chance]:
        """Return the batch and its lots; a threshold that the trace's lot contradicts does not count."""
        batch = arrays_of(traces, self._compiled[1])
        chance = Chance.real(batch, salts)
        passed = chance.randomness >= batch.sampled_before
        return replace(batch, sampled_before=np.where(passed, batch.sampled_before, ALWAYS)), chance

    def early_condition(self) -> str | None:
        """Return the SQL, over partials of one trace, of being kept early; None if no policy can."""
        names = self._compiled[1]
        return " OR ".join(_early_sql(each, names) for each in self.early) or None

    @cached_property
    def early(self) -> tuple[Policy, ...]:
        """Policies that, once they keep a trace, keep it whatever spans follow; none beside a drop policy."""
        if self._drops or (self.inverted_decisions and any(each.inverted for each in self.policies)):
            return ()
        return tuple(each for each in self.policies if _is_monotone(each))

    @cached_property
    def _drops(self) -> tuple[Policy, ...]:
        return tuple(each for each in self.policies if isinstance(each.rule, Drop))

    @cached_property
    def _others(self) -> tuple[Policy, ...]:
        return tuple(each for each in self.policies if not isinstance(each.rule, Drop))

    @cached_property
    def _salts(self) -> set[str]:
        return {each.rule.salt for each in self._all() if isinstance(each.rule, Probabilistic)}

    def _all(self) -> list[Policy]:
        return [below for each in self.policies for below in each.every()]

    @cached_property
    def _compiled(self) -> tuple[dict[str, AggregateColumn], dict[str, tuple[str, ...]]]:
        """Return the aggregates by name, and the names that each policy reads; equal SQL is computed once."""
        made: dict[str, AggregateColumn] = {}
        names: dict[str, tuple[str, ...]] = {}
        by_sql: dict[tuple[str, str], str] = {}

        def named(sql: str, merge: str, kind: str) -> str:
            name = by_sql.setdefault((sql, merge), f"p{len(by_sql)}")
            made[name] = AggregateColumn(name, sql, merge, kind)  # type: ignore[arg-type]
            return name

        for policy in self._all():
            match policy.rule:
                case Flag(condition=condition):
                    sql = f"coalesce(bool_or({condition}), false)"
                    names[policy.path] = (named(sql, "max", "BOOLEAN"),)
                case Dynamic(fields=fields):
                    parts = [sql for each in fields for sql in each.aggregates()]
                    names[policy.path] = tuple(
                        named(sql, "min" if sql.startswith("min(") else "max", "VARCHAR") for sql in parts
                    )
                case Budget(unit="bytes"):
                    made[BYTES.name] = BYTES
        if self.uses_tracestate:
            made |= {each.name: each for each in (RV, TH)}
        return made, names

    def _budgets(self, moment: DecisionMoment, memory: LimiterMemory) -> Budgets:
        """Return what each limiter may spend."""
        elapsed = elapsed_s(memory.at_ns, moment.watermark_ns)
        found: dict[str, tuple[float, int]] = {}
        for policy in self._all():
            match policy.rule:
                case Budget(per_second=rate, burst=burst):
                    budget = budget_of(memory.tokens.get(policy.path), rate, burst, elapsed)
                    found[policy.path] = (budget, burst)
                case Composite(most, parts, allocations):
                    for part, share in zip(parts, allocations, strict=True):
                        path = f"{part.path}#share"
                        allowed = min(share, most)
                        left = memory.tokens.get(path, 0.0) if not elapsed else 0.0
                        fresh = allowed * max(elapsed, 1.0) if elapsed or memory.at_ns is None else left
                        found[path] = (fresh, int(allowed * max(elapsed, 1.0)))
        return Budgets(found)

    def _rates(
        self, traces: pa.Table, moment: DecisionMoment, memory: LimiterMemory
    ) -> tuple[dict[str, Int64s], dict[str, object]]:
        """Return thresholds of dynamic samplers for each trace, and what they have learned."""
        thresholds: dict[str, Int64s] = {}
        learned: dict[str, object] = {}
        for policy in self._all():
            if isinstance(policy.rule, Dynamic):
                state = DynamicState.of(memory.rates.get(policy.path))
                keys = self._keys(policy, policy.rule, traces)
                known = keys.dictionary.to_pylist()
                by_key = [threshold_of(1 / state.rate(key, policy.rule.settings)) for key in known]
                codes = keys.indices.to_numpy()
                thresholds[policy.path] = np.array(by_key, np.int64)[codes]
                seen = np.bincount(codes, minlength=len(known)).tolist()
                state.count(dict(zip(known, seen, strict=True)), policy.rule.settings, moment.watermark_ns)
                learned[policy.path] = state.to_json()
        return thresholds, learned

    def _keys(self, policy: Policy, rule: Dynamic, traces: pa.Table) -> pa.DictionaryArray:
        """Join the fields of each trace's key; text that is absent is empty."""
        parts = [traces.column(name).fill_null("") for name in self._compiled[1][policy.path]]
        if rule.with_span_count:
            parts.append(traces.column("span_count").cast(pa.string()))
        joined = pc.binary_join_element_wise(*parts, "\x1f") if parts else pa.array([""] * traces.num_rows)
        chunked = joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])
        return chunked.cast(pa.string()).combine_chunks().dictionary_encode()

    def _remember(
        self, memory: LimiterMemory, moment: DecisionMoment, budgets: Budgets, learned: dict[str, object]
    ) -> LimiterMemory:
        tokens = {
            path: float(min(burst, budget - (budgets.cuts[path].spent if path in budgets.cuts else 0)))
            for path, (budget, burst) in budgets.spans.items()
        }
        at_ns = moment.watermark_ns if memory.at_ns is None else max(memory.at_ns, moment.watermark_ns)
        return LimiterMemory(at_ns, tokens, dict(learned))

    def _outcome(self, voting: Voting) -> Outcome:
        """Combine votes in the collector's order of precedence."""
        rows = len(voting.batch)
        everything = np.ones(rows, np.bool_)
        dropped = np.zeros(rows, np.bool_)
        by = np.full(rows, -1, np.int32)
        for number, policy in enumerate(self.policies):
            if isinstance(policy.rule, Drop):
                votes = voting.vote(policy, everything) & ~dropped
                by[votes] = number
                dropped |= votes
        keep, least = np.zeros(rows, np.bool_), np.full(rows, NEVER + 1, np.int64)
        against, for_, refused = keep.copy(), keep.copy(), keep.copy()
        for number, policy in enumerate(self.policies):
            if isinstance(policy.rule, Drop):
                continue
            votes = voting.vote(policy, ~dropped)
            undecided = ~dropped & ~(keep & self.first_match)
            if self.inverted_decisions and _inverted(policy):
                against |= undecided & ~votes
                by[undecided & votes & ~for_ & ~keep] = number
                for_ |= undecided & votes
                continue
            threshold = np.broadcast_to(np.asarray(strictness(policy, voting), np.int64), rows)
            better = votes & undecided & (threshold < least)
            by[better] = number
            least = np.where(better, threshold, least)
            keep |= votes & undecided
            refused |= undecided & ~votes
        kept = ~dropped & ~against & (keep | (for_ & ~refused))
        by[~kept & ~dropped] = -1
        return Outcome(kept, dropped, by)

    def _probability(self, voting: Voting) -> Float64s:
        """Return how likely each trace was to be kept, upstream samplers included."""
        if not any(isinstance(each.rule, _RANDOM) for each in self._all()):
            kept = self._outcome(voting).keep
            return np.where(kept, 1 - voting.batch.sampled_before / NEVER, 0.0)
        info = voting.batch.has_info
        if info.any() and not info.all():
            found = np.empty(len(info), np.float64)
            for rows in (info, ~info):
                found[rows] = self._probability(_restricted(voting, rows))
            return found
        probability = np.zeros(len(voting.batch), np.float64)
        for cell, share in cells(self.policies, voting):
            probability += share * self._outcome(cell).keep
        return np.minimum(probability, 1.0)

    def _table(self, traces: pa.Table, outcome: Outcome, probability: Float64s) -> pa.Table:
        names = pa.array([NO_POLICY, *(each.name for each in self.policies)])
        kept = [f"kept by {each.type} policy {each.name}" for each in self.policies]
        dropped = [f"dropped by policy {each.name}" for each in self.policies]
        reasons = pa.array([NO_MATCH, *kept, *dropped])
        codes = np.where(outcome.by < 0, 0, outcome.by + 1 + outcome.dropped * len(self.policies))
        threshold = np.array(NEVER - np.rint(probability * NEVER), np.int64)
        columns = [
            traces.column("trace_id").cast(pa.binary()),
            pa.array(outcome.keep),
            pa.DictionaryArray.from_arrays(pa.array(outcome.by + 1, pa.int32()), names),
            pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), reasons),
            pa.array(probability),
            pa.array(np.clip(threshold, ALWAYS, NEVER)),
        ]
        return pa.table(columns, schema=DECISIONS)


@dataclass(frozen=True, slots=True)
class Outcome:
    keep: Flags
    dropped: Flags
    by: np.ndarray
    """Number of the policy that decided, -1 where none did."""


_RANDOM = (Probabilistic, Budget, Composite, Deterministic, Dynamic)


def _restricted(voting: Voting, rows: Flags) -> Voting:
    chance = Chance(
        voting.chance.randomness[rows], {salt: each[rows] for salt, each in voting.chance.hashes.items()}
    )
    rates = {path: each[rows] for path, each in voting.rates.items()}
    return Voting(voting.batch.take(rows), chance, voting.budgets, rates)


def _inverted(policy: Policy) -> bool:
    """Tell whether a policy gives inverted decisions."""
    return policy.inverted and isinstance(policy.rule, Flag)


def _is_monotone(policy: Policy) -> bool:
    """Tell whether more spans never turn a vote to keep into one against."""
    match policy.rule:
        case Always():
            return True
        case Flag(negate=negate):
            return not negate
        case Latency(up_to_ms=most) | SpanCount(most=most):
            return not most
        case And(parts):
            return all(map(_is_monotone, parts))
    return False


def _early_sql(policy: Policy, names: dict[str, tuple[str, ...]]) -> str:
    match policy.rule:
        case Flag():
            return f"bool_or({names[policy.path][0]})"
        case Latency(above):
            return f"(max(last_ns) - min(first_ns)) // 1000000 > {above}"
        case SpanCount(least):
            return f"sum(span_count) >= {least}"
        case And(parts):
            return f"({' AND '.join(_early_sql(part, names) for part in parts)})"
    return "true"

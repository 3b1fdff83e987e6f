"""Each policy votes on all traces of a batch at once, as arrays.

    traces      latency>1s  probabilistic 10%       or
    t1 2.0 s    True        False                   True, with certainty
    t2 0.1 s    False       True                    True, with probability 0.1

Chance has few sources: the randomness of the trace, and a hash for each salt. Voting again in every cell of
their thresholds gives the exact probability of a decision, for every mix of policies.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakerunner_sampling.policies.hashing import (
    ALWAYS,
    NEVER,
    fnv_hashes,
    hash_limit,
    id_bytes,
    threshold_of,
    trace_randomness,
)
from lakerunner_sampling.policies.limits import Cut, cut
from lakerunner_sampling.policies.model import (
    Always,
    And,
    Budget,
    Composite,
    Deterministic,
    Drop,
    Dynamic,
    Flag,
    Latency,
    Not,
    Policy,
    Probabilistic,
    SpanCount,
)
from resources.arrays import Flags, Int64s

MILLISECOND = 10**6
HASHES = 1 << 64
UInt64s = npt.NDArray[np.uint64]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Traces as arrays."""

    columns: dict[str, np.ndarray]
    ids: npt.NDArray[np.uint8]
    names: dict[str, tuple[str, ...]]
    """Names of the columns that a policy reads, by its path."""
    has_info: Flags
    """True where spans carry OTel's sampling information."""
    sampled_before: Int64s
    """Threshold that the trace has passed before."""

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, policy: Policy) -> np.ndarray:
        return self.columns[self.names[policy.path][0]]

    def cost(self, unit: str) -> Int64s:
        return self.columns["span_count" if unit == "spans" else "bytes"]

    def take(self, rows: Flags) -> Batch:
        return replace(
            self,
            columns={name: each[rows] for name, each in self.columns.items()},
            ids=self.ids[rows],
            has_info=self.has_info[rows],
            sampled_before=self.sampled_before[rows],
        )


@dataclass(frozen=True, slots=True)
class Chance:
    """One outcome of the sources of chance, for each trace."""

    randomness: Int64s
    hashes: dict[str, UInt64s]

    @classmethod
    def real(cls, batch: Batch, salts: set[str]) -> Chance:
        found = trace_randomness(batch.ids)
        if "ot_rv" in batch.columns:
            explicit = batch.columns["ot_rv"]
            found = np.where(explicit >= 0, explicit, found)
        return cls(found, {salt: fnv_hashes(salt, batch.ids) for salt in salts})


@dataclass(slots=True)
class Budgets:
    """Budgets of limiters in this batch, and how they cut it."""

    spans: dict[str, tuple[float, int]]
    """Budget and burst by path; parts of composites too."""
    cuts: dict[str, Cut] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Voting:
    """Votes of policies under one outcome of chance."""

    batch: Batch
    chance: Chance
    budgets: Budgets
    rates: dict[str, Int64s]
    """Thresholds of dynamic samplers, by path."""

    def vote(self, policy: Policy, active: Flags) -> Flags:
        """Return which traces the policy keeps; `active` are those on which its vote counts."""
        match policy.rule:
            case Always():
                return np.ones(len(self.batch), np.bool_)
            case Flag(negate=negate):
                found: Flags = self.batch.of(policy) ^ negate
                return found
            case Latency(above, up_to):
                return self._latency(above, up_to)
            case SpanCount(least, most):
                spans = self.batch.columns["span_count"]
                within: Flags = (spans >= least) & ((spans <= most) if most else True)
                return within
            case Probabilistic(salt, percentage):
                return self._probabilistic(salt, percentage)
            case Budget(unit):
                return self._within(policy.path, self.batch.cost(unit), active)
            case Deterministic(rate):
                return self.chance.randomness >= threshold_of(1 / rate)
            case Dynamic():
                return self.chance.randomness >= self.rates[policy.path]
            case And(parts) | Drop(parts):
                return self._all(parts, active)
            case Not(part):
                return ~self.vote(part, active)
            case Composite():
                return self._composite(policy.rule, active)
        raise TypeError(policy.rule)

    def _latency(self, above: int, up_to: int) -> Flags:
        columns = self.batch.columns
        took = (columns["last_ns"] - columns["first_ns"]) // MILLISECOND
        found: Flags = (took > above) & ((took <= up_to) if up_to else True)
        return found

    def _probabilistic(self, salt: str, percentage: float) -> Flags:
        by_hash: Flags = self.chance.hashes[salt] <= np.uint64(hash_limit(percentage))
        if not self.batch.has_info.any():
            return by_hash
        by_state = self.chance.randomness >= threshold_of(percentage / 100)
        return np.where(self.batch.has_info, by_state, by_hash)

    def _within(self, path: str, cost: Int64s, active: Flags) -> Flags:
        """Cut the batch on the first vote; later votes keep to that cut."""
        budget, burst = self.budgets.spans[path]
        fits = cost <= burst
        if path not in self.budgets.cuts:
            self.budgets.cuts[path] = cut(self.chance.randomness, cost, active & fits, int(budget))
        return fits & (self.chance.randomness >= self.budgets.cuts[path].threshold)

    def _all(self, parts: tuple[Policy, ...], active: Flags) -> Flags:
        """Vote with limiters last: only what the other parts keep competes for their budget."""
        kept = np.ones(len(self.batch), np.bool_)
        for part in sorted(parts, key=lambda part: isinstance(part.rule, Budget)):
            kept &= self.vote(part, active & kept)
        return kept

    def _composite(self, rule: Composite, active: Flags) -> Flags:
        kept = np.zeros(len(self.batch), np.bool_)
        left = np.ones(len(self.batch), np.bool_)
        for part in rule.parts:
            matches = left & self.vote(part, active & left)
            path = f"{part.path}#share"
            kept |= matches & self._within(path, self.batch.cost("spans"), active & matches)
            left &= ~matches
        return kept


def strictness(policy: Policy, voting: Voting) -> Int64s | int:
    """Return the threshold that a vote to keep stands for, as in the collector."""
    match policy.rule:
        case Probabilistic(_, percentage):
            return threshold_of(percentage / 100)
        case Deterministic(rate):
            return threshold_of(1 / rate)
        case Budget():
            return voting.budgets.cuts[policy.path].threshold
        case Dynamic():
            return voting.rates[policy.path]
        case And(parts):
            found = [strictness(part, voting) for part in parts]
            return np.maximum.reduce(np.broadcast_arrays(*found)) if found else ALWAYS
    return ALWAYS


def cell_count(policies: tuple[Policy, ...]) -> int:
    """Return in how many cells the policies have to vote, at most."""
    steps, salts = _steps(policies)
    hashes = int(np.prod([len(limits) + 1 for limits in salts.values()]))
    probabilistic = sum(map(len, salts.values()))
    return max((steps + 2) * hashes, steps + probabilistic + 2)


def _steps(policies: tuple[Policy, ...]) -> tuple[int, dict[str, set[int]]]:
    """Count the thresholds on randomness, and collect those of each salt."""
    steps, salts = 0, dict[str, set[int]]()
    for policy in (below for each in policies for below in each.every()):
        match policy.rule:
            case Probabilistic(salt, percentage):
                salts.setdefault(salt, set()).add(hash_limit(percentage))
            case Budget() | Deterministic() | Dynamic():
                steps += 1
            case Composite(parts=parts):
                steps += len(parts)
    return steps, salts


def _thresholds(policies: tuple[Policy, ...], voting: Voting) -> list[Int64s | int]:
    found: list[Int64s | int] = [each.threshold for each in voting.budgets.cuts.values()]
    for policy in (below for each in policies for below in each.every()):
        match policy.rule:
            case Deterministic() | Dynamic():
                found.append(strictness(policy, voting))
            case Probabilistic(_, percentage) if voting.batch.has_info.any():
                found.append(threshold_of(percentage / 100))
    return found


def cells(policies: tuple[Policy, ...], voting: Voting) -> Iterator[tuple[Voting, Float64s]]:
    """Yield every cell of the sources of chance with its probability."""
    batch = voting.batch
    rows = len(batch)
    cuts = [each for each in _thresholds(policies, voting) if not isinstance(each, int) or 0 < each < NEVER]
    edges = [np.zeros(rows, np.int64), *cuts, batch.sampled_before, np.full(rows, NEVER)]
    steps = np.sort(np.stack([np.broadcast_to(np.asarray(each, np.int64), rows) for each in edges]), axis=0)
    by_hash = not batch.has_info.all()
    salts = _steps(policies)[1] if by_hash else {}
    ladders = [[(salt, *step) for step in _ladder(limits)] for salt, limits in salts.items()]
    for at in range(len(steps) - 1):
        width = (steps[at + 1] - steps[at]) / NEVER
        width = np.where(steps[at] >= batch.sampled_before, width, 0.0)
        if not width.any():
            continue
        for chosen in itertools.product(*ladders):
            hashes = {salt: np.full(rows, value, np.uint64) for salt, value, _ in chosen}
            for salt in voting.chance.hashes:
                hashes.setdefault(salt, voting.chance.hashes[salt])
            share = width * float(np.prod([each for _, _, each in chosen]))
            yield replace(voting, chance=Chance(steps[at], hashes)), share


def _ladder(limits: set[int]) -> Iterator[tuple[int, float]]:
    """Yield a hash of each step between the limits, with the step's share."""
    below = 0
    for limit in sorted(limits):
        yield limit, (limit + 1 - below) / HASHES
        below = limit + 1
    if below < HASHES:
        yield HASHES - 1, (HASHES - below) / HASHES


def arrays_of(traces: pa.Table, names: dict[str, tuple[str, ...]]) -> Batch:
    """Turn the aggregates of a batch into arrays; what tracestate lacks becomes -1 and 0."""
    columns: dict[str, np.ndarray] = {}
    for field_ in traces.schema:
        column = traces.column(field_.name)
        if field_.name == "trace_id" or pa.types.is_string(field_.type):
            continue
        filler = False if pa.types.is_boolean(field_.type) else -1 if field_.name in {"ot_rv", "ot_th"} else 0
        columns[field_.name] = column.fill_null(filler).to_numpy()
    ids = id_bytes(traces.column("trace_id"))
    rows = len(ids)
    nothing = np.full(rows, -1, np.int64)
    th, rv = columns.get("ot_th", nothing), columns.get("ot_rv", nothing)
    return Batch(columns, ids, names, (th >= 0) | (rv >= 0), np.maximum(th, 0))

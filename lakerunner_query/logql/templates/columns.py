"""Templates rendered over columns: texts for all rows, and messages for those that failed.

    labels app [web, web, db], "{{.app | upper}}!"   →   upper runs twice, texts [WEB!, WEB!, DB!]

Plain text and labels are put together by Arrow; computed pieces run once per distinct combination of the
labels they read (and of line and time, if they read those).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.gotext.limits import Budget, allow_text
from lakerunner_query.gotext.template.execute import Execution
from lakerunner_query.gotext.time import Time
from lakerunner_query.gotext.values import ExecutionError, Labels, Row, from_bytes
from lakerunner_query.logql.frame import ABSENT, Column, LogFrame
from lakerunner_query.logql.lang.templates import TemplateReads
from lakerunner_query.logql.templates.chains import (
    ChainSource,
    ColumnChain,
    Computed,
    Label,
    Piece,
    Plain,
    Template,
    run_chain,
)
from lakerunner_query.logql.templates.functions import LIBRARY
from resources.arrays import Int32s, Int64s


@dataclass(frozen=True, slots=True)
class Rendered:
    """Texts of all rows."""

    texts: pa.StringArray
    """Texts by row; undefined where a row failed."""
    failure: Int32s
    """Number of a row's message, or `ABSENT`."""
    messages: list[str]

    @property
    def failed(self) -> bool:
        return bool(self.messages)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Texts of a computed piece by distinct combination, and messages if there are any."""

    texts: list[str]
    messages: list[str | None]


def render(
    template: Template, frame: LogFrame, now_ns: int, check: Callable[[], None] | None = None
) -> Rendered:
    """Render a template for all rows; `check` is called now and then, and may raise to end the work."""
    budget = Budget(frame.count, check)
    failure = np.full(frame.count, ABSENT, dtype=np.int32)
    messages: dict[str, int] = {}
    texts = []
    for piece in template.pieces:
        if isinstance(piece, Computed):
            codes, outcome = _compute(template, piece, frame, now_ns, budget)
            _note_failures(codes, outcome.messages, failure, messages)
            texts.append(_spread(outcome.texts, codes, budget))
        else:
            texts.append(_simple(piece, frame, budget))
    return Rendered(_join(texts, frame.count), failure, list(messages))


def _simple(piece: Piece, frame: LogFrame, budget: Budget) -> pa.Scalar | pa.StringArray:
    if isinstance(piece, Plain):
        budget.add_text(len(piece.text) * frame.count)
        return pa.scalar(_valid(piece.text))
    column = frame.labels.get(piece.name) if isinstance(piece, Label) else None
    if column is None:
        return pa.scalar("")
    texts = label_texts(column)
    budget.add_text(pc.sum(pc.binary_length(texts)).as_py() or 0)
    return texts


def label_texts(column: Column) -> pa.StringArray:
    """Return one text per row, empty where the row has no such label."""
    taken = column.values.take(pa.array(column.codes, mask=column.codes < 0))
    return pc.fill_null(taken, "") if taken.null_count else taken


def _join(texts: list[pa.Scalar | pa.StringArray], count: int) -> pa.StringArray:
    if any(isinstance(text, pa.Array) for text in texts):
        if len(texts) == 1:
            return texts[0]
        whole = pc.binary_join_element_wise(*texts, "")
        allow_text(pc.max(pc.binary_length(whole)).as_py() or 0)
        return whole
    return pa.repeat("".join(text.as_py() for text in texts), count)


def _spread(texts: list[str], codes: Int64s, budget: Budget) -> pa.StringArray:
    distinct = pa.array([_valid(text) for text in texts], pa.string())
    lengths = pc.binary_length(distinct).to_numpy(zero_copy_only=False)
    budget.add_text(int(lengths[codes].sum()) if len(texts) else 0)
    return distinct.take(pa.array(codes))


def _valid(text: str) -> str:
    """Replace bytes outside UTF-8, which cannot be written out as text."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _note_failures(codes: Int64s, found: list[str | None], failure: Int32s, messages: dict[str, int]) -> None:
    """Note the message of the first piece that fails on a row."""
    if not any(found):
        return
    numbers = [ABSENT if text is None else messages.setdefault(text, len(messages)) for text in found]
    here = np.array(numbers, dtype=np.int32)[codes]
    np.copyto(failure, here, where=failure == ABSENT)


def _compute(
    template: Template, piece: Computed, frame: LogFrame, now_ns: int, budget: Budget
) -> tuple[Int64s, _Outcome]:
    """Return the combination of each row, and the outcome of each combination."""
    columns = _columns(piece.reads, frame)
    codes, firsts = _combinations([column.codes for column in columns.values()], piece.reads, frame)
    if piece.chain is not None:
        row = Row("", 0, now_ns)
        texts = run_chain(piece.chain, _chain_values(piece.chain, frame, firsts), row, budget)
        if texts is not None:
            return codes, _Outcome(texts, [])
    outcome = _Outcome([], [])
    for labels, row in _inputs(columns, piece.reads, frame, firsts, now_ns):
        budget.start_line()
        text, message = _run(Execution(template.tree, labels, row, budget, LIBRARY), piece)
        budget.hold_text(len(message or text))
        outcome.texts.append(text)
        outcome.messages.append(message)
    return codes, outcome


def _run(execution: Execution, piece: Computed) -> tuple[str, str | None]:
    try:
        return execution.run(piece.nodes), None
    except ExecutionError as error:
        return "", str(error)
    except RecursionError as error:
        raise LimitExceededError("a template calls templates too deeply; nest it less") from error


def _chain_values(chain: ColumnChain, frame: LogFrame, firsts: Int64s) -> list[Any]:
    if chain.source is ChainSource.TIME:
        return [Time(ns) for ns in frame.tsns[firsts].tolist()]
    if chain.source is ChainSource.LINE:
        return _texts(frame.line.take(pa.array(firsts)))
    column = frame.labels.get(chain.label)
    return [""] * len(firsts) if column is None else [text or "" for text in _values_at(column, firsts)]


def _columns(reads: TemplateReads, frame: LogFrame) -> dict[str, Column]:
    if reads.labels is None:
        return frame.labels
    return {name: frame.labels[name] for name in sorted(reads.labels) if name in frame.labels}


def _combinations(label_codes: list[Int32s], reads: TemplateReads, frame: LogFrame) -> tuple[Int64s, Int64s]:
    """Number the distinct inputs of rows; return numbers by row and the first row of each."""
    codes = np.zeros(frame.count, dtype=np.int64)
    firsts = np.zeros(min(1, frame.count), dtype=np.int64)
    keys: list[Int32s | Int64s] = list(label_codes)
    if reads.line:
        keys.append(frame.line.dictionary_encode().indices.to_numpy(zero_copy_only=False))
    if reads.time:
        keys.append(frame.tsns)
    for key in keys:
        _, narrow = np.unique(key, return_inverse=True)
        paired = codes * (int(narrow.max(initial=0)) + 1) + narrow
        _, firsts, codes = np.unique(paired, return_index=True, return_inverse=True)
    return codes, firsts


def _inputs(
    columns: dict[str, Column], reads: TemplateReads, frame: LogFrame, firsts: Int64s, now_ns: int
) -> Iterator[tuple[Labels, Row]]:
    """Yield labels and row of each combination."""
    rows = pa.array(firsts)
    values = {name: _values_at(column, firsts) for name, column in columns.items()}
    lines = _texts(frame.line.take(rows)) if reads.line else []
    for at, first in enumerate(firsts.tolist()):
        labels = Labels()
        for name, texts in values.items():
            if (text := texts[at]) is not None:
                labels[name] = text
        yield labels, Row(lines[at] if reads.line else "", int(frame.tsns[first]), now_ns)


def _values_at(column: Column, rows: Int64s) -> list[str | None]:
    codes = column.codes[rows]
    return _texts(column.values.take(pa.array(codes, mask=codes < 0)))


def _texts(texts: pa.StringArray) -> list[Any]:
    """Convert to strings like Go's; a file may hold bytes outside UTF-8 though its column says text."""
    try:
        found: list[Any] = texts.to_pylist()
    except UnicodeDecodeError:
        found = [None if raw is None else from_bytes(raw) for raw in texts.cast(pa.binary()).to_pylist()]
    return found

"""What a push says about the level of an entry.

In Loki's order: a stream label of one of the usual names, then structured metadata of one. `detected_level`
sent as metadata (by another Loki, or an agent) is the last word on `log_level` and the first on our column of
that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_assets.decode.levels import detected_levels, levels
from lakerunner_assets.decode.naming import Attribute
from resources.lake.streams import Labels

LEVEL_NAMES = (
    "level", "LEVEL", "Level", "log.level", "severity", "SEVERITY", "Severity", "SeverityText", "lvl", "LVL",
    "Lvl", "severity_text", "Severity_Text", "SEVERITY_TEXT",
)  # fmt: skip
"""Loki's default `log_level_fields`."""
DETECTED_LEVEL = "detected_level"


class Levels(NamedTuple):
    level: pa.DictionaryArray
    detected: pa.DictionaryArray
    text: pa.DictionaryArray
    """As sent, '' where nothing was."""


def entry_levels(
    label_sets: Iterable[Labels],
    set_of_entry: np.ndarray,
    metadata: Mapping[Attribute, pa.Array],
    message: pa.StringArray,
) -> Levels:
    """The levels of every entry."""
    by_label = pa.array([_of_labels(dict(labels)) for labels in label_sets], pa.string())
    sent = [by_label.take(pa.array(set_of_entry))]
    sent += [_text(metadata, name) for name in (*LEVEL_NAMES, DETECTED_LEVEL) if _key(name) in metadata]
    text = _coded(sent)
    level = _levels(text)
    source = level
    if _key(DETECTED_LEVEL) in metadata:
        source = _levels(_coded([_text(metadata, DETECTED_LEVEL), *sent]))
    return Levels(level, detected_levels(source, message), text)


def _of_labels(labels: Mapping[str, str]) -> str | None:
    return next((labels[name] for name in LEVEL_NAMES if name in labels), None)


def _key(name: str) -> Attribute:
    return Attribute("record", name, "string")


def _text(metadata: Mapping[Attribute, pa.Array], name: str) -> pa.StringArray:
    """Null where it says nothing."""
    column = metadata[_key(name)].cast(pa.string())
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _coded(texts: list[pa.StringArray]) -> pa.DictionaryArray:
    """The first that says something, '' where none does."""
    return pc.fill_null(pc.coalesce(*texts), "").dictionary_encode()


def _levels(text: pa.DictionaryArray) -> pa.DictionaryArray:
    return levels(np.zeros(len(text), np.int32), text)

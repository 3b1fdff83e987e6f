"""Stream identity and the stream table."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from resources.lake.streams import (
    Stream,
    canonical,
    decode,
    encode,
    labels_from_text,
    labels_to_text,
    read_table,
    stream_id,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LABELS = st.dictionaries(TEXT, TEXT, max_size=5).map(canonical)


def test_ids_are_frozen() -> None:
    """Stored in every segment for ever."""
    assert stream_id((("service_name", "web"),)) == FROZEN_ID
    assert stream_id(()) == FROZEN_EMPTY


def test_empty_is_absent_and_order_does_not_matter() -> None:
    assert canonical({"b": "2", "a": "1", "c": ""}) == (("a", "1"), ("b", "2"))


@given(LABELS, LABELS)
def test_different_sets_have_different_ids(
    one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...]
) -> None:
    assert (stream_id(one) == stream_id(other)) == (one == other)


@given(LABELS)
def test_labels_survive_as_text(labels: tuple[tuple[str, str], ...]) -> None:
    assert labels_from_text(labels_to_text(labels)) == labels


@settings(deadline=None)
@given(st.lists(LABELS, max_size=6, unique=True))
def test_the_table_round_trips(sets: list[tuple[tuple[str, str], ...]]) -> None:
    streams = [Stream(stream_id(labels), labels, n + 1, -n, n) for n, labels in enumerate(sets)]
    raw = encode(streams)
    assert set(decode(raw)) == set(streams)
    assert raw == encode(reversed(streams))
    assert read_table(raw).column_names == ["stream_id", "labels", "rows", "min_ns", "max_ns"]


FROZEN_ID = -5501590645388319844
FROZEN_EMPTY = -7374073936536430376

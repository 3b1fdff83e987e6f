"""Where to start reading a partition: a pure decision over the stored offset and the broker's watermarks."""

from __future__ import annotations

from resources.stream.values import EventKind, ReadEvent, Watermarks


def start_of(
    topic: str, partition: int, stored: int | None, marks: Watermarks
) -> tuple[int, tuple[ReadEvent, ...]]:
    """The first offset to read, with what there is to report.

    >>> start_of("t", 0, None, Watermarks(3, 9))
    (3, ())
    >>> start_of("t", 0, 5, Watermarks(3, 9))
    (5, ())
    >>> start_of("t", 0, 1, Watermarks(3, 9))[1][0].lost
    2
    >>> start_of("t", 0, 12, Watermarks(3, 9))[0]
    3
    """
    if stored is None:
        return marks.low, ()
    if stored > marks.high:
        text = f"stored offset {stored} is above the end {marks.high}: broker recreated, starting over"
        return marks.low, (ReadEvent(EventKind.BROKER_RESET, topic, partition, stored, marks.high, text),)
    if stored < marks.low:
        text = f"{marks.low - stored} messages were dropped by the broker before they were read"
        return marks.low, (ReadEvent(EventKind.GAP, topic, partition, stored, marks.low, text),)
    return stored, ()

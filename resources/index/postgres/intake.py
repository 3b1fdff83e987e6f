"""Raw objects are registered together with the Kafka offsets they were read at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resources.index.postgres.connections import Connection, PostgresPart, storable
from resources.index.statements import load
from resources.index.types import DeadLetter, Intake, IntakeResult, ObjectNotice, TopicOffset

SQL = load("intake")


class IntakeDesk(PostgresPart):
    def read_offsets(self, cluster: str, topic: str) -> list[TopicOffset]:
        rows = self._rows(SQL["read_offsets"], {"cluster": cluster, "topic": topic})
        return [TopicOffset(row["topic"], row["partition"], row["next_offset"]) for row in rows]

    def take_in(self, intake: Intake) -> IntakeResult:
        """Register all or nothing: an offset never moves past an object that is not registered."""
        with self._transaction() as connection:
            result = register(connection, intake.notices)
            _keep(connection, intake.dead_letters)
            for offset in intake.offsets:
                values = {
                    "topic": offset.topic,
                    "partition": offset.partition,
                    "next_offset": offset.next_offset,
                }
                connection.execute(SQL["move_offset"], {"cluster": intake.cluster, **values})
        return IntakeResult(*result, dead_letters=len(intake.dead_letters))

    def register_listed(self, notices: Sequence[ObjectNotice]) -> IntakeResult:
        with self._transaction() as connection:
            return IntakeResult(*register(connection, notices), dead_letters=0)

    def append_dead_letters(self, letters: Sequence[DeadLetter]) -> None:
        with self._transaction() as connection:
            _keep(connection, letters)

    def known_keys(self, bucket: str, keys: Sequence[str]) -> set[str]:
        rows = self._rows(SQL["known_keys"], {"bucket": bucket, "keys": list(keys)})
        return {row["key"] for row in rows}

    def add_counters(self, amounts: Mapping[str, float]) -> None:
        with self._transaction() as connection:
            for name in sorted(amounts):
                connection.execute(SQL["add_counter"], {"name": name, "amount": amounts[name]})

    def set_gauges(self, values: Mapping[str, float]) -> None:
        with self._transaction() as connection:
            for name in sorted(values):
                connection.execute(SQL["set_gauge"], {"name": name, "value": values[name]})


def register(
    connection: Connection, notices: Sequence[ObjectNotice]
) -> tuple[tuple[ObjectNotice, ...], int, int]:
    """Return (new objects, repeats, keys written again), in two statements however many there are."""
    first = {(n.bucket, n.key): n for n in reversed(notices)}
    rows = connection.execute(SQL["register"], _columns(list(first.values()))).fetchall()
    new = sorted((row["bucket"], row["key"]) for row in rows)
    fresh = {id(first[place]) for place in new}
    repeats = [notice for notice in notices if id(notice) not in fresh]
    overwritten = connection.execute(SQL["mark_overwritten"], _columns(repeats)).rowcount if repeats else 0
    return tuple(first[place] for place in new), len(notices) - len(new), overwritten


def _columns(notices: Sequence[ObjectNotice]) -> dict[str, list[object]]:
    names = ("bucket", "key", "org", "collector", "arrival_hour_ns", "size", "version")
    columns = {name: [getattr(notice, name) for notice in notices] for name in names}
    return {
        **columns,
        "signal": [notice.signal.value for notice in notices],
        "etag": [notice.etag.strip('"') for notice in notices],
    }


def _keep(connection: Connection, letters: Sequence[DeadLetter]) -> None:
    for letter in letters:
        values = {
            "source": letter.source,
            "topic": letter.topic,
            "partition": letter.partition,
            "offset": letter.offset,
            "reason": storable(letter.reason),
            "payload": letter.payload,
        }
        connection.execute(SQL["keep_dead_letter"], values)

"""One transaction changes the live segments.

Steps: finish the batch while its token holds; lock the partitions of all changed hours; check that the
sources are those of the plan; insert segments; retire inputs; settle raw objects; bump versions; append
notices; mark as due what is built from the changed partitions; count what open tables have to take over. A
count that is not the expected one raises and rolls everything back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from psycopg import DataError, IntegrityError

from resources.index.contract import Deliver
from resources.index.dependents import (
    added_records,
    changed_partitions,
    dependents,
    derivable_hours,
    is_rewrite,
    is_sent,
    recordable_hours,
    recorded_window,
    source_window,
)
from resources.index.postgres.connections import Connection, IndexDeadlockError, PostgresPart, storable
from resources.index.postgres.open_tables import note_changes
from resources.index.rule_types import RecordedFrom
from resources.index.statements import load
from resources.index.types import (
    BuiltPartition,
    OutboxMessage,
    Publication,
    PublishConflictError,
    Segment,
)
from resources.lake.frequency import AS_SENT, rollup_of
from resources.lake.layout import Signal
from resources.lake.signals import FACTS, MATERIALIZED_MS, RECORDED_MS
from resources.lake.timecut import HOUR_NS, dateint, hour_of_day

SQL = load("publish")
RULING = load("ruling")
DAY_WIDTH_NS = 24 * 3600 * 1_000_000_000


class Publishing(PostgresPart):
    def publish(self, publication: Publication) -> dict[int, int]:
        try:
            with self._transaction() as connection:
                for step in STEPS:
                    step(connection, publication)
                versions = _bump(connection, publication)
                changed = [*publication.retire, *(segment.segment_id for segment in publication.segments)]
                if changed:
                    note_changes(connection, publication.claim.org, changed)
                return versions
        except (IntegrityError, DataError, IndexDeadlockError) as error:
            # What the tables refuse of one batch must not end the run and all else it has claimed.
            raise PublishConflictError(f"batch {publication.claim.batch_id}: {error}") from error

    def recorded_sources(
        self, org: str, signals: Sequence[Signal], from_ns: int, to_ns: int
    ) -> dict[int, int]:
        with self._transaction() as connection:
            rows = source_rows(connection, org, signals, from_ns, to_ns)
        return {row["start_ns"]: row["version"] for row in rows}

    def append_outbox(self, messages: Sequence[OutboxMessage]) -> None:
        with self._transaction() as connection:
            _append(connection, messages)

    def drain_outbox(self, deliver: Deliver, limit: int) -> int:
        with self._transaction() as connection:
            rows = connection.execute(SQL["lock_outbox"], {"limit": limit}).fetchall()
            if rows:
                deliver([OutboxMessage(row["topic"], row["key"], row["payload"]) for row in rows])
                connection.execute(SQL["delete_outbox"], {"ids": [row["outbox_id"] for row in rows]})
            return len(rows)


def _finish_batch(connection: Connection, publication: Publication) -> None:
    claim = publication.claim
    values = {"batch_id": claim.batch_id, "token": claim.token}
    _expect(connection, "finish_batch", values, 1, f"claim of batch {claim.batch_id}")


def _lock_partitions(connection: Connection, publication: Publication) -> None:
    expected = {built.start_ns: built.expected_version for built in publication.built}
    for start in changed_partitions(publication):
        values = _partition(publication, start)
        connection.execute(SQL["ensure_partition"], values)
        row = connection.execute(SQL["lock_partition"], values).fetchone()
        _expect_version(publication, start, row, expected.get(start))
    if publication.materialized is not None:
        (_, built), values = publication.materialized, _materialized(publication)
        connection.execute(SQL["ensure_partition"], values)
        row = connection.execute(SQL["lock_partition"], values).fetchone()
        _expect_version(publication, built.start_ns, row, built.expected_version)
    if publication.recorded is not None:
        recorded, values = publication.recorded, _recorded(publication)
        connection.execute(SQL["ensure_partition"], values)
        row = connection.execute(SQL["lock_partition"], values).fetchone()
        _expect_version(publication, recorded.start_ns, row, recorded.expected_version)


def _expect_version(
    publication: Publication, start: int, row: Mapping[str, Any] | None, expected: int | None
) -> None:
    if expected is not None and (row is None or row["version"] != expected):
        raise PublishConflictError(
            f"batch {publication.claim.batch_id}: partition {start} was built by another since planning"
        )


def _check_sources(connection: Connection, publication: Publication) -> None:
    if publication.expect_sources is None:
        return
    claim = publication.claim
    values = {"org": claim.org, "signal": claim.signal.value, "hour_ns": claim.hour_ns}
    rows = connection.execute(SQL["sources_of_hour"], values).fetchall()
    if tuple(row["object_id"] for row in rows) != tuple(sorted(publication.expect_sources)):
        raise PublishConflictError(
            f"batch {claim.batch_id}: objects with rows in the hour changed since planning"
        )


def _give_up_sources(connection: Connection, publication: Publication) -> None:
    if publication.given_up:
        claim = publication.claim
        scope = {"org": claim.org, "signal": claim.signal.value, "hour_ns": claim.hour_ns}
        values = {**scope, "object_ids": list(publication.given_up)}
        _expect(connection, "give_up_sources", values, len(publication.given_up), "sources to give up")


def _insert_segments(connection: Connection, publication: Publication) -> None:
    for segment in publication.segments:
        connection.execute(SQL["insert_segment"], segment_row(segment, publication.claim.batch_id))
        values = {"segment_id": segment.segment_id, "object_ids": list(segment.object_ids)}
        connection.execute(SQL["insert_sources"], values)


def _retire(connection: Connection, publication: Publication) -> None:
    if publication.retire:
        values = {"segment_ids": list(publication.retire), "org": publication.claim.org}
        _expect(connection, "retire", values, len(publication.retire), "live segments to retire")


def _settle_objects(connection: Connection, publication: Publication) -> None:
    claim = publication.claim
    alone = len(claim.inputs) == 1
    for done in publication.done:
        values = {**asdict(done), "etag": done.etag.strip('"')}
        _expect(connection, "object_done", values, 1, f"object {done.object_id} in this batch")
        for hour, rows in done.hours:
            scope = {"org": claim.org, "signal": claim.signal.value}
            connection.execute(
                SQL["object_hours"], {"object_id": done.object_id, "hour_ns": hour, "rows": rows, **scope}
            )
    for failed in publication.failed:
        values = {
            **asdict(failed),
            "error": storable(failed.error),
            "alone": alone,
            "max_tries": publication.max_tries,
        }
        _expect(connection, "object_failed", values, 1, f"object {failed.object_id} in this batch")


def _note_inputs(connection: Connection, publication: Publication) -> None:
    """Tell rulers which records were added."""
    scope = _partition(publication, 0)
    for added in added_records(publication):
        values = {**scope, **asdict(added), "metric_names": list(added.metric_names)}
        connection.execute(RULING["add_alert_input"], values)


def _append_notices(connection: Connection, publication: Publication) -> None:
    _append(connection, publication.outbox)


STEPS = (
    _finish_batch,
    _lock_partitions,
    _check_sources,
    _give_up_sources,
    _insert_segments,
    _retire,
    _settle_objects,
    _note_inputs,
    _append_notices,
)


def _bump(connection: Connection, publication: Publication) -> dict[int, int]:
    versions: dict[int, int] = {}
    for start in changed_partitions(publication):
        values = {
            **_partition(publication, start),
            "sent": is_sent(publication),
            "rewrite": is_rewrite(publication),
        }
        row = connection.execute(SQL["bump_partition"], values).fetchone()
        if row is None:
            raise PublishConflictError(f"partition {start} vanished while it was locked")
        versions[start] = row["version"]
    for built in publication.built:
        _note_built(connection, publication, built)
    if publication.materialized is not None:
        _note_materialized(connection, publication, publication.materialized[1])
    for frequency_ms, start in dependents(publication):
        values = {**_partition(publication, start), "frequency_ms": frequency_ms}
        connection.execute(SQL["mark_due"], values)
    if starts := derivable_hours(publication):
        always = FACTS[publication.claim.signal].has_preset
        values = {**_partition(publication, 0), "frequency_ms": MATERIALIZED_MS}
        connection.execute(SQL["mark_derivable"], {**values, "starts": starts, "always": always})
    if publication.recorded is not None:
        _note_recorded(connection, publication, publication.recorded)
    if starts := recordable_hours(publication):
        language = FACTS[publication.claim.signal].recorded_by
        values = {**_partition(publication, 0), "frequency_ms": RECORDED_MS, "language": language}
        connection.execute(SQL["mark_recordable"], {**values, "starts": starts})
    return versions


def _note_built(connection: Connection, publication: Publication, built: BuiltPartition) -> None:
    rollup = rollup_of(publication.frequency_ms)
    scope = _partition(publication, built.start_ns)
    sources = {**scope, "frequency_ms": rollup.source_ms}
    sources.update(from_ns=built.start_ns, to_ns=built.start_ns + rollup.partition_ns)
    rows = connection.execute(SQL["source_versions"], sources).fetchall()
    _note_sources(connection, scope, built, _has_versions(built, rows))


def _note_materialized(connection: Connection, publication: Publication, built: BuiltPartition) -> None:
    scope = _materialized(publication)
    connection.execute(SQL["bump_partition"], {**scope, "sent": False, "rewrite": False})
    low, high = source_window(Signal(scope["signal"]), built.start_ns)
    sources = {**scope, "frequency_ms": AS_SENT, "from_ns": low, "to_ns": high}
    rows = connection.execute(SQL["sent_versions"], sources).fetchall()
    rules = connection.execute(SQL["rules_revision"], scope).fetchone()
    has_rules = rules is not None and rules["revision"] == publication.rules_revision
    _note_sources(connection, scope, built, has_rules and _has_versions(built, rows))
    connection.execute(SQL["drop_rule_hours"], {**scope, "hour_ns": built.start_ns})
    for hour in publication.rule_hours:
        connection.execute(
            SQL["insert_rule_hour"], {**scope, **asdict(hour), "refusals": list(hour.refusals)}
        )


def _note_recorded(connection: Connection, publication: Publication, recorded: RecordedFrom) -> None:
    scope = _recorded(publication)
    connection.execute(SQL["bump_partition"], {**scope, "sent": False, "rewrite": False})
    rows = source_rows(connection, publication.claim.org, recorded.signals, *recorded_window(recorded))
    rules = connection.execute(SQL["rules_revision"], scope).fetchone()
    has_rules = rules is not None and rules["revision"] == publication.rules_revision
    _note_sources(connection, scope, recorded, has_rules and _has_versions(recorded, rows))
    following = {
        "last_ns": recorded.start_ns + recorded.hours_back * HOUR_NS,
        "start_text": str(recorded.start_ns),
        "source": recorded.built_from.get(recorded.start_ns, 0),
    }
    connection.execute(SQL["mark_following"], {**scope, **following})


def source_rows(
    connection: Connection, org: str, signals: Sequence[Signal], from_ns: int, to_ns: int
) -> list[dict[str, Any]]:
    """Return the versions that recorded metrics are made from, by hour."""
    values = {"org": org, "signals": [signal.value for signal in signals], "derived_ms": MATERIALIZED_MS}
    return connection.execute(
        SQL["recorded_sources"], {**values, "from_ns": from_ns, "to_ns": to_ns}
    ).fetchall()


def _note_sources(
    connection: Connection, scope: Mapping[str, Any], built: BuiltPartition | RecordedFrom, current: bool
) -> None:
    """Record what the partition was built from; it stays due if that has changed since planning."""
    text = json.dumps({str(start): version for start, version in sorted(built.built_from.items())})
    objects, by = (list(built.objects), built.by) if isinstance(built, BuiltPartition) else ([], "")
    values = {"built_from": text, "current": current, "objects": objects, "by": by}
    connection.execute(SQL["note_built"], {**scope, **values})


def _has_versions(built: BuiltPartition | RecordedFrom, rows: Sequence[Mapping[str, Any]]) -> bool:
    return {row["start_ns"]: row["version"] for row in rows} == dict(built.built_from)


def _partition(publication: Publication, start_ns: int) -> dict[str, Any]:
    claim = publication.claim
    return {
        "org": claim.org,
        "signal": claim.signal.value,
        "frequency_ms": publication.frequency_ms,
        "start_ns": start_ns,
    }


def _materialized(publication: Publication) -> dict[str, Any]:
    if publication.materialized is None:
        raise ValueError(f"batch {publication.claim.batch_id} derives no metrics")
    signal, built = publication.materialized
    scope = _partition(publication, built.start_ns)
    return {**scope, "signal": signal.value, "frequency_ms": MATERIALIZED_MS}


def _recorded(publication: Publication) -> dict[str, Any]:
    if publication.recorded is None:
        raise ValueError(f"batch {publication.claim.batch_id} records no metrics")
    return {**_partition(publication, publication.recorded.start_ns), "frequency_ms": RECORDED_MS}


def _append(connection: Connection, messages: Sequence[OutboxMessage]) -> None:
    for message in messages:
        connection.execute(SQL["append_outbox"], asdict(message))


def _expect(connection: Connection, statement: str, values: dict[str, Any], wanted: int, what: str) -> None:
    found = connection.execute(SQL[statement], values).rowcount
    if found != wanted:
        raise PublishConflictError(f"expected {wanted} {what}, found {found}; nothing was published")


def segment_row(segment: Segment, batch_id: int) -> dict[str, Any]:
    """Return the column values of a segment's row."""
    whole_days = segment.width_ns >= DAY_WIDTH_NS
    return {
        **{name: getattr(segment, name) for name in Segment.__slots__ if name != "object_ids"},
        "signal": segment.signal.value,
        "dateint": dateint(segment.hour_ns),
        "hour": None if whole_days else hour_of_day(segment.hour_ns),
        "terms": list(segment.terms),
        "label_names": list(segment.label_names),
        "metric_names": list(segment.metric_names),
        "batch_id": batch_id,
    }

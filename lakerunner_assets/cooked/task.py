"""Cooking downloads the objects of a unit, decodes, cuts by hour, sorts, writes and answers.

Four rows of one object that arrived at 12:xx (horizon 2025, tolerance 1 h):

    event time           goes to
    2026-01-02T12:10     logs, hour 12
    2026-01-02T11:59     logs, hour 11 (late)
    2019-05-05T00:00     logs-quarantine, hour 12 (before the horizon)
    2026-01-02T15:00     logs-quarantine, hour 12 (more than an hour ahead)
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from numba.core.errors import NumbaError

from lakerunner_assets.cooked.download import Download, download
from lakerunner_assets.cooked.split import HourBuffers, split_rows
from lakerunner_assets.cooked.units import Errand, Target, Unit, UnitObject, segment_id
from lakerunner_assets.decode.dispatch import DecodedSlice, Place, Request, decode
from lakerunner_assets.decode.errors import DecodeError
from lakerunner_assets.decode.payload import open_payload
from lakerunner_assets.lake_files import put_segment
from lakerunner_assets.segments.written import SegmentIdentity
from lakerunner_assets.signals import SIGNALS
from lakerunner_assets.spec import SignalSpec
from lakerunner_assets.task_results import Answer, Fault, ObjectAnswer, SegmentAnswer
from resources.lake.layout import hourly_segment_key
from resources.lake.timecut import HOUR_NS, from_datetime
from resources.objects.client import ObjectInfo, ObjectStore
from resources.objects.errors import StoreError, UnavailableError
from resources.objects.store import open_store
from resources.settings import Settings, SettingsError

READER_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError,
    RecursionError, TypeError, ValueError, pa.ArrowException, NumbaError,
)  # fmt: skip
"""Errors of a reader that did not expect these bytes: a defect of ours, and no other object's harm."""
MAX_SILENCE = 2
"""Objects of one bucket in a row without an answer; each costs a minute."""


Tell = Callable[[int | None, int], None]
"""Takes the object that is read next, None for none, and the number of the next segment."""


def cook_unit(errand: Errand, settings: Settings, tell: Tell) -> Answer:
    """Cook a unit. A lake, a disk or a configuration that fails makes all objects wait."""
    unit = errand.unit
    try:
        return _rounds(errand, settings, tell)
    except (StoreError, SettingsError) as error:
        return _all_wait(unit, str(error))
    except OSError as error:
        if error.errno is None:
            raise  # not from the system: some library's word for bytes it cannot read
        return _all_wait(unit, f"the worker's machine: {error}")


def _all_wait(unit: Unit, error: str) -> Answer:
    waiting = (ObjectAnswer(obj.object_id, fault=Fault.STORE, error=error) for obj in unit.objects)
    return Answer(tuple(waiting), (), 0.0, 0)


def _rounds(errand: Errand, settings: Settings, tell: Tell) -> Answer:
    """Cook again without an object that failed after rows of it were written."""
    unit = errand.unit
    left_out = {answer.object_id: answer for answer in errand.left_out}
    part = errand.first_part or unit.part * 1_000_000
    while True:
        round_ = Round(unit, settings, left_out, part, tell)
        try:
            return round_.run()
        except SpilledObjectError as error:
            left_out[error.answer.object_id] = error.answer
            part = round_.next_part


class SpilledObjectError(Exception):
    """An object failed with rows in a segment already; it is never published."""

    def __init__(self, answer: ObjectAnswer) -> None:
        super().__init__(answer.error)
        self.answer = answer


class ObjectError(Exception):
    """One object cannot be cooked."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


OBJECT_ERRORS: tuple[type[Exception], ...] = (ObjectError, DecodeError, *READER_ERRORS)


class Round:
    """One pass over the objects of a unit."""

    def __init__(
        self, unit: Unit, settings: Settings, left_out: dict[int, ObjectAnswer], part: int, tell: Tell
    ) -> None:
        self._unit = unit
        self._tell = tell
        self._settings = settings
        self._spec: SignalSpec = SIGNALS[unit.signal]
        self._buffers = HourBuffers(unit.slice_bytes)
        self._objects: list[ObjectAnswer] = list(left_out.values())
        self._left_out = left_out
        self._segments: list[SegmentAnswer] = []
        self._raw_bytes = 0
        self._silence: Counter[str] = Counter()
        self._reading: int | None = None
        self.next_part = part

    def run(self) -> Answer:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="lakerunner-cook-") as folder:
            for obj in self._unit.objects:
                if obj.object_id not in self._left_out:
                    self._reading = obj.object_id
                    self._tell(self._reading, self.next_part)
                    self._objects.append(self._cook_object(obj, Path(folder)))
            self._reading = None
            for dataset, hour in self._buffers.filled():
                self._write(dataset, hour, Path(folder))
        seconds = time.monotonic() - started
        return Answer(tuple(self._objects), tuple(self._segments), seconds, self._raw_bytes)

    def _cook_object(self, obj: UnitObject, folder: Path) -> ObjectAnswer:
        self._buffers.begin()
        try:
            fetched = self._fetch(obj, folder)
            return self._rows_of(obj, fetched, folder)
        except (StoreError, SettingsError):
            raise  # of the lake, while rows were written to make room
        except OBJECT_ERRORS as error:
            fault = error.fault if isinstance(error, ObjectError) else Fault.OBJECT
            answer = ObjectAnswer(
                obj.object_id, fault=fault, error=f"{obj.bucket}/{obj.key}: {_reason(error)}"
            )
            if self._buffers.spilled:
                raise SpilledObjectError(answer) from error
            self._buffers.forget()
            return answer

    def _fetch(self, obj: UnitObject, folder: Path) -> Download:
        if self._silence[obj.bucket] >= MAX_SILENCE:
            raise ObjectError(Fault.STORE, "its bucket does not answer")
        try:
            store = self._store_of(obj.bucket)
            fetched = download(store, obj.key, folder, self._unit.object_max_bytes)
        except (UnavailableError, SettingsError) as error:
            self._silence[obj.bucket] += 1
            raise ObjectError(Fault.STORE, str(error)) from error
        except StoreError as error:
            raise ObjectError(Fault.OBJECT, str(error)) from error
        self._silence[obj.bucket] = 0
        found = fetched.info.etag.strip('"')
        if obj.expect_etag and found != obj.expect_etag:
            raise ObjectError(Fault.OBJECT, f"was written again: etag {obj.expect_etag} became {found}")
        self._raw_bytes += fetched.info.size
        return fetched

    def _store_of(self, bucket: str) -> ObjectStore:
        if bucket not in self._unit.buckets:
            raise SettingsError(f"bucket {bucket!r} has no storage profile any more")
        url, ref = self._unit.buckets[bucket]
        return open_store(url, self._settings, ref)

    def _rows_of(self, obj: UnitObject, fetched: Download, folder: Path) -> ObjectAnswer:
        hours: Counter[int] = Counter()
        notes: Counter[str] = Counter()
        rejected = quarantined = 0
        first_rejected = ""
        for decoded in self._decode(obj, fetched, folder):
            part = split_rows(decoded.table, self._spec, self._unit, obj.arrival_hour_ns)
            rejected += decoded.rejected
            first_rejected = first_rejected or decoded.first_rejected
            notes.update(decoded.notes)
            quarantined += part.quarantined
            hours.update(part.counts)
            for (dataset, hour), table in part.tables.items():
                self._buffers.add(dataset, hour, table)
                if self._buffers.full():
                    self._spill(folder)
        return ObjectAnswer(
            obj.object_id,
            etag=fetched.info.etag.strip('"'),
            rows=sum(hours.values()),
            rejected=rejected,
            quarantined=quarantined,
            notes=tuple(sorted(notes.items())),
            hours=tuple(sorted(hours.items())),
            error=first_rejected,
        )

    def _decode(self, obj: UnitObject, fetched: Download, folder: Path) -> Iterator[DecodedSlice]:
        place = Place(obj.object_id, 0, _arrival(obj, fetched.info))
        request = Request(obj.key, place, self._unit.options, max(1, self._unit.slice_bytes // 2))
        decoders = self._spec.decoders()
        with fetched, open_payload(fetched.content, self._unit.object_max_bytes, folder) as payload:
            yield from decode(payload, request, decoders)

    def _spill(self, folder: Path) -> None:
        """Write the largest buffer, to make room."""
        dataset, hour = self._buffers.largest()
        self._write(dataset, hour, folder)

    def _write(self, dataset: str, hour_ns: int, folder: Path) -> None:
        target = self._target(hour_ns)
        name = segment_id(target, hour_ns, dataset, self.next_part)
        self.next_part += 1
        self._tell(self._reading, self.next_part)
        unit = self._unit
        path = folder / name
        identity = SegmentIdentity(unit.org, unit.collector, dataset, hour_ns, name)
        facts = self._spec.write(self._buffers.take(dataset, hour_ns), path, identity)
        key = hourly_segment_key(unit.org, unit.collector, dataset, hour_ns, name)
        put_segment(open_store(unit.lake_url, self._settings), key, path)
        path.unlink()
        self._segments.append(
            SegmentAnswer(target.batch_id, name, key, unit.collector, dataset, hour_ns, facts)
        )

    def _target(self, hour_ns: int) -> Target:
        return self._unit.target or self._unit.targets[hour_ns]


def _reason(error: Exception) -> str:
    """Write an error of the object as it is, and one of its reader with where it came from."""
    if isinstance(error, ObjectError | DecodeError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"takes more memory to read than a task may have (LAKERUNNER_COOK_MEMORY_BYTES): {error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"its reader failed: {error!r} in {Path(last.filename).name}:{last.lineno}"


def _arrival(obj: UnitObject, info: ObjectInfo) -> int:
    """Return the time of arrival inside the arrival hour, so that a copy cooks alike."""
    hour = obj.arrival_hour_ns
    return min(max(from_datetime(info.last_modified), hour + 1), hour + HOUR_NS)

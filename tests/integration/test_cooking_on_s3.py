"""Raw objects and lake on S3: the same cooking, over ranges, create-only puts and etags of a real server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakerunner_assets.cooked.task import cook_unit
from lakerunner_assets.cooked.units import Errand, Target, Unit, UnitObject
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from resources.lake.timecut import HOUR_NS
from resources.objects.store import open_store
from resources.settings import Settings
from tests.support.otlp_logs import otlp_logs

pytestmark = pytest.mark.integration
HOUR = 490_896 * HOUR_NS
Make = Callable[[Sequence[str]], Unit]


@pytest.fixture
def unit_of(s3: Settings, request: pytest.FixtureRequest) -> Make:
    name = request.node.name

    def make(keys: Sequence[str]) -> Unit:
        return Unit(
            signal=Signal.LOGS,
            org="acme",
            collector="c",
            part=0,
            objects=tuple(UnitObject(i, "raw", key, HOUR) for i, key in enumerate(keys, 1)),
            target=Target(1, 0),
            targets={},
            buckets={"raw": (f"s3://lake/{name}/raw", "")},
            lake_url=f"s3://lake/{name}/lake",
            horizon_ns=0,
            future_tolerance_ns=HOUR_NS,
            object_max_bytes=1 << 20,
            slice_bytes=1 << 20,
            options=DecodeOptions(),
        )

    return make


def test_objects_on_s3_become_a_segment_on_s3(s3: Settings, unit_of: Make) -> None:
    unit = unit_of(["a b+c.binpb", "missing"])
    open_store(unit.buckets["raw"][0], s3).put_new(
        "a b+c.binpb", otlp_logs([(HOUR + 1, "one"), (HOUR + 2, "two")])
    )
    answer = cook_unit(Errand(unit), s3, lambda *_: None)
    good, missing = answer.objects
    assert (good.rows, good.fault) == (2, None)
    assert good.etag
    assert "missing" in missing.error
    (segment,) = answer.segments
    data = open_store(unit.lake_url, s3).get_bytes(segment.key)
    table = pq.read_table(pa.BufferReader(data))
    assert sorted(table.column("log_message").to_pylist()) == ["one", "two"]


def test_a_task_that_spark_runs_again_writes_the_same_object(s3: Settings, unit_of: Make) -> None:
    unit = unit_of(["a"])
    open_store(unit.buckets["raw"][0], s3).put_new("a", otlp_logs([(HOUR + 1, "one")]))
    first, again = cook_unit(Errand(unit), s3, lambda *_: None), cook_unit(Errand(unit), s3, lambda *_: None)
    assert first.segments == again.segments
    assert first.objects == again.objects

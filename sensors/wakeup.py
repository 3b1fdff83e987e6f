"""The wake-up sensor reads notices of publications on Kafka and looks at once.

They are hints: whoever needs them finds the same in the index a little later, so a lost one costs seconds. A
notice that cannot be read is kept as a dead letter. Their offsets are rows of the index like all others.
"""

import json
from collections.abc import Sequence

import dagster as dg
import msgspec
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from resources.bindings import Lakerunner
from resources.index.contract import PipelineIndex
from resources.index.types import DeadLetter, Intake
from resources.kafka.reader import KafkaUnavailableError, Message, read_batch
from resources.lake.layout import Signal
from resources.settings import Settings
from sensors.planner import LastRequest, look
from sensors.reconciler import overdue_requests

INTERVAL_S = 10
MAX_NOTICES = 2000
ROLLUP_TOPIC = "boxer.metrics.rollup"


class Notice(msgspec.Struct, forbid_unknown_fields=True):
    """The notice of a publication: this partition changed."""

    org: str
    hour_ns: int
    frequency_ms: int = 0
    signal: Signal = Signal.METRICS


def compact_topic(signal: Signal) -> str:
    return f"boxer.{signal.value}.compact"


def wake_up_sensor(jobs: Sequence[UnresolvedAssetJobDefinition]) -> dg.SensorDefinition:
    """Build the sensor; `jobs` are those of compaction and of rollups."""

    @dg.sensor(
        name="wake_up",
        jobs=jobs,
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at once where a notice says that something changed.",
    )
    def wake_up(
        context: dg.SensorEvaluationContext, lakerunner: Lakerunner
    ) -> dg.SensorResult | dg.SkipReason:
        index, settings = lakerunner.index, lakerunner.settings
        asked: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        requests: list[dg.RunRequest] = []
        noticed = 0
        try:
            for signal in Signal:
                found = take_notices(index, settings, compact_topic(signal))
                noticed += found
                last = LastRequest.of(asked.get(signal.value))
                seen = (
                    look(context.instance, lakerunner, signal, last, settings.planner_interval_s)
                    if found
                    else ""
                )
                if not isinstance(seen, str):
                    requests.append(seen[0])
                    asked[signal.value] = seen[1].cursor()
            rolled = take_notices(index, settings, ROLLUP_TOPIC)
        except KafkaUnavailableError as error:
            return dg.SkipReason(f"no notices, the index tells the same a little later: {error}")
        if rolled:
            requests += overdue_requests(index, context.instance, settings)
        if not requests:
            return dg.SkipReason(f"{noticed + rolled} notices, nothing to ask for")
        return dg.SensorResult(run_requests=requests, cursor=json.dumps(asked))

    return wake_up


def take_notices(index: PipelineIndex, settings: Settings, topic: str) -> int:
    """Read and commit the notices since the last look; return their number."""
    offsets = index.read_offsets(settings.kafka_cluster, topic)
    batch = read_batch(settings.require("kafka_bootstrap"), topic, offsets, MAX_NOTICES)
    if batch.messages:
        dead = [letter for message in batch.messages if (letter := dead_letter_of(message)) is not None]
        index.take_in(
            Intake(settings.kafka_cluster, dead_letters=tuple(dead), offsets=tuple(batch.next_offsets))
        )
    return len(batch.messages)


def dead_letter_of(message: Message) -> DeadLetter | None:
    """Return a dead letter for a message that is no notice."""
    try:
        msgspec.json.decode(message.value, type=Notice)
    except msgspec.DecodeError as error:  # also of other types: ValidationError is one of them
        reason = f"not a notice about a partition: {error}"
        return DeadLetter("kafka", reason, message.value, message.topic, message.partition, message.offset)
    return None

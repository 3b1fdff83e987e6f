"""The order of the steps for one request, from bytes to acknowledgement.

Runs in a worker thread (everything here may block). Nothing is acknowledged before it is durable; a sender
that repeats itself after an error does no harm, because raw objects are unique by bucket and key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.notifications.acknowledge import Acknowledgement, acknowledge
from lakerunner_ingress.notifications.parse import parse
from lakerunner_ingress.notifications.produce import keep, produce
from lakerunner_ingress.notifications.validate import Rejected, Validated, validate
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import Telemetry
from resources.index.contract import IngressIndex
from resources.kafka import Producer
from resources.lake.notice import MalformedMessageError
from resources.lake.s3_event import S3Event


@dataclass(frozen=True, slots=True)
class Pipeline:
    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: Telemetry = field(default_factory=Telemetry)

    def notify(self, body: bytes, caller: Caller) -> Acknowledgement:
        event = self._parse(body, caller)
        validated = self._validate(event, caller)
        self._produce(validated)
        self._keep(validated.rejected, caller)
        self.telemetry.count("ignored", validated.ignored)
        return acknowledge(validated)

    def _parse(self, body: bytes, caller: Caller) -> S3Event:
        try:
            return self.telemetry.steps.timed("parse", lambda: parse(body, caller.name))
        except MalformedMessageError as error:
            self._keep((Rejected(0, "", str(error), body),), caller)
            raise

    def _validate(self, event: S3Event, caller: Caller) -> Validated:
        began = self.registry.now()
        validated = validate(event, caller, self.registry.current())
        if validated.unknown:
            validated = validate(event, caller, self.registry.newer_than(began))
        return validated

    def _produce(self, validated: Validated) -> None:
        accepted = validated.accepted
        if accepted:
            where = self.telemetry.steps.timed(
                "produce", lambda: produce(accepted, self.producer, self.index)
            )
            self.telemetry.count(where, len(accepted))

    def _keep(self, rejected: tuple[Rejected, ...], caller: Caller) -> None:
        self.telemetry.steps.timed("keep", lambda: keep(rejected, caller, self.index))
        self.telemetry.count("rejected", len(rejected))

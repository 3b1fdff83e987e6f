"""The order of the steps for one message of a webhook or a queue, from bytes to acknowledgement.

Runs in a worker thread (everything here may block). Nothing is acknowledged before it is durable; a sender
that repeats itself after an error does no harm, because raw objects are unique by bucket and key.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from lakerunner_ingress.auth import Caller
from lakerunner_ingress.notifications.acknowledge import Acknowledgement, acknowledge
from lakerunner_ingress.notifications.parse import MAX_MESSAGE_BYTES, parse
from lakerunner_ingress.notifications.produce import keep, produce
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.validate import Rejected, Validated, validate
from lakerunner_ingress.registry import RegistryCache
from lakerunner_ingress.telemetry import Telemetry
from resources.index.contract import IngressIndex
from resources.kafka.producer import Producer
from resources.notifications.announced import Event, MalformedMessageError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pipeline:
    index: IngressIndex
    producer: Producer
    registry: RegistryCache
    telemetry: Telemetry = field(default_factory=Telemetry)

    def notify(self, body: bytes, caller: Caller, shape: Shape) -> Acknowledgement:
        """Raises `MalformedMessageError` when nothing in `body` can be read; it is kept by then."""
        event = self._parse(body, caller, shape)
        if event.note:
            log.warning("%s: %s", caller.name, event.note)
        validated = self._validate(event, caller)
        self._produce(validated)
        self._keep(validated.rejected, caller)
        self.telemetry.count("ignored", validated.ignored)
        return acknowledge(validated, event.note)

    def _parse(self, body: bytes, caller: Caller, shape: Shape) -> Event:
        try:
            return self.telemetry.steps.timed("parse", lambda: parse(body, caller.name, shape))
        except MalformedMessageError as error:
            self._keep((Rejected(0, "", str(error), body[:MAX_MESSAGE_BYTES]),), caller)
            raise

    def _validate(self, event: Event, caller: Caller) -> Validated:
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

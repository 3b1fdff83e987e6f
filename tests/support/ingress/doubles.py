"""What the ingress' tests use in place of Kafka and Postgres: both remember, and both can be away."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from resources.index.account_types import StorageProfile
from resources.index.memory import MemoryIndex
from resources.index.postgres.connections import IndexUnavailableError
from resources.index.types import OutboxMessage
from resources.kafka.reader import KafkaUnavailableError
from resources.lake.layout import PrefixMapping
from resources.notifications.references import decode_message

TOKEN = "webhook-secret"
GOOD = "otel-raw/acme/eu/logs/2026/01/02/03/a.binpb.gz"


@dataclass
class FakeProducer:
    sent: list[OutboxMessage] = field(default_factory=list)
    down: bool = False

    @property
    def keys(self) -> list[str]:
        """Of the objects in the sent messages."""
        return [record.key for message in self.sent for record in decode_message(message.payload)]

    def send(self, messages: Sequence[OutboxMessage]) -> None:
        if self.down:
            raise KafkaUnavailableError("down")
        self.sent += messages

    def check(self) -> str:
        return "down" if self.down else ""

    def close(self) -> None: ...


class FlakyIndex(MemoryIndex):
    down = False

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "down" and self.down:
            raise IndexUnavailableError("down")
        return super().__getattribute__(name)


def accounts() -> FlakyIndex:
    """Two organisations with keys, and a bucket."""
    found = FlakyIndex()
    for org in ("acme", "beta"):
        found.create_organisation(org)
        for role in ("read", "write"):
            found.create_api_key(org, role, role, hashlib.sha256(f"{org}-{role}".encode()).digest(), None)
    found.put_storage_profile(StorageProfile("raw", "file:///raw"))
    found.put_prefix_mapping(PrefixMapping("raw", "edge/", "acme", "edge", None))
    return found

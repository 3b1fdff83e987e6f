"""For receivers in tests: the ingress' doubles with a directory as bucket, and what is in it."""

from __future__ import annotations

from pathlib import Path

import zstandard

from resources.index.account_types import StorageProfile
from resources.notifications.events import NotifiedObject
from resources.notifications.references import decode_message
from tests.support.ingress.doubles import FakeProducer, FlakyIndex, accounts

KEY = {"Authorization": "Bearer acme-write"}


def index_with(folder: Path) -> FlakyIndex:
    """Organisations acme and beta, a key per role, one bucket."""
    found = accounts()
    found.put_storage_profile(StorageProfile("raw", f"file://{folder}"))
    return found


def announced(producer: FakeProducer) -> list[NotifiedObject]:
    return [record for message in producer.sent for record in decode_message(message.payload)]


def objects(folder: Path) -> dict[str, bytes]:
    """The opened content of every raw object, by key."""
    return {
        str(path.relative_to(folder)): zstandard.decompress(path.read_bytes())
        for path in sorted(folder.rglob("*.zst"))
    }

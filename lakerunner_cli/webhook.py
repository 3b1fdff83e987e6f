"""Notifies the ingress about new objects, as an S3 server does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import httpx

from lakerunner_cli.command import CommandError
from resources.settings import Settings

PATH = "/api/v1/notifications/s3"
RECORDS_PER_REQUEST = 200
TRIES = 6
TIMEOUT_S = 30.0
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - where to connect when bound to all


@dataclass(frozen=True, slots=True)
class NewObject:
    bucket: str
    key: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers of the ingress, summed over requests, with the reasons of rejected objects."""

    accepted: int = 0
    ignored: int = 0
    reasons: tuple[str, ...] = ()

    def plus(self, answer: dict[str, Any]) -> Outcome:
        found = tuple(f"{r['key']}: {r['reason']}" for r in answer["rejected"])
        return Outcome(
            self.accepted + answer["accepted"], self.ignored + answer["ignored"], self.reasons + found
        )


def base_url(host: str, port: int) -> str:
    return f"http://{ANY_ADDRESS.get(host, host)}:{port}"


def notify(objects: Sequence[NewObject], settings: Settings) -> Outcome:
    """Announce objects; retry while the ingress is busy or away, since repeating does no harm."""
    url = base_url(settings.ingress_host, settings.ingress_port) + PATH
    headers = {"Authorization": f"Bearer {settings.require('webhook_token')}"}
    outcome = Outcome()
    with httpx.Client(headers=headers, timeout=TIMEOUT_S) as client:
        for start in range(0, len(objects), RECORDS_PER_REQUEST):
            body = {"Records": [_record(each) for each in objects[start : start + RECORDS_PER_REQUEST]]}
            outcome = outcome.plus(_post(client, url, body))
    return outcome


def _post(client: httpx.Client, url: str, body: dict[str, Any]) -> dict[str, Any]:
    problem = ""
    for attempt in range(TRIES):
        try:
            answer = client.post(url, json=body)
        except httpx.TransportError as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            content = answer.json()
            if "rejected" in content:
                return dict(content)
            problem = f"{answer.status_code} {content.get('message', '')}"
            if answer.status_code not in {429, 503}:
                break
        time.sleep(min(4.0, 0.25 * 2**attempt))
    raise CommandError(f"the ingress at {url} did not take the notification: {problem}")


def _record(each: NewObject) -> dict[str, Any]:
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    thing = {"key": quote_plus(each.key, safe="/"), "size": each.size, "eTag": each.etag}
    return {
        "eventVersion": "2.1",
        "eventSource": "lakerunner",
        "eventTime": moment,
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": each.bucket}, "object": thing},
    }

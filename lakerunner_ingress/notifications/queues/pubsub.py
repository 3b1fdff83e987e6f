"""A Pub/Sub pull subscription, over its REST interface.

`projects/P/subscriptions/S` is read at Google with a token of google-auth, which is loaded only here. A whole
`http://` address is an emulator's and gets no credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import httpx
import msgspec

from lakerunner_ingress.notifications.queues.queue import (
    CONNECT_S,
    QueueMessage,
    QueueSetupError,
    QueueUnavailableError,
    ask,
    open_client,
)
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.gcs import parse_gcs
from resources.settings import Settings

WHO = "Pub/Sub"
GOOGLE = "https://pubsub.googleapis.com/v1/"
SCOPE = "https://www.googleapis.com/auth/pubsub"
MOST = 10
HOLD_S = 120
"""Deadline of received messages; a subscription's own may be as short as 10 s."""
_SUBSCRIPTION = re.compile(r"(?:http://[^/?#]+/v1/)?projects/[^/?#]+/subscriptions/[^/?#]+")

Token = Callable[[], str]


class _Message(msgspec.Struct):
    ack: str = msgspec.field(name="ackId")
    message: msgspec.Raw


class _Head(msgspec.Struct):
    id: str = msgspec.field(default="", name="messageId")


class _Answer(msgspec.Struct):
    messages: list[_Message] = msgspec.field(default_factory=list, name="receivedMessages")


class PubSubQueue:
    """The subscription."""

    name = "pubsub"
    hold_s = float(HOLD_S)
    idle_s = 0.5
    """Pause after an empty answer: an emulator may answer at once, Google waits."""

    def __init__(self, client: httpx.Client, url: str, token: Token | None, wait_s: float) -> None:
        self._client = client
        self._url = url
        self._token = token
        self._wait = httpx.Timeout(max(1.0, wait_s), connect=CONNECT_S)
        self.shape: Shape = parse_gcs

    def receive(self) -> list[QueueMessage]:
        answer = self._pull()
        if answer is None:
            return []
        try:
            found = msgspec.json.decode(answer.content, type=_Answer).messages
            received = [
                QueueMessage(_id(m.message), m.ack, b'{"message":%b}' % bytes(m.message)) for m in found
            ]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise QueueUnavailableError(f"{WHO}: an answer that cannot be read: {error}") from error
        if received:
            self._extend(received, HOLD_S)
        return received

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        self._ask("acknowledge", {"ackIds": [m.handle for m in messages]})

    def release(self, messages: Sequence[QueueMessage]) -> None:
        self._extend(messages, 0)

    def close(self) -> None:
        self._client.close()

    def _pull(self) -> httpx.Response | None:
        try:
            return self._ask("pull", {"maxMessages": MOST}, timeout=self._wait)
        except QueueUnavailableError as error:
            if isinstance(error.__cause__, httpx.ReadTimeout):
                return None  # no message within the wait
            raise

    def _extend(self, messages: Sequence[QueueMessage], seconds: int) -> None:
        ids = [m.handle for m in messages]
        self._ask("modifyAckDeadline", {"ackIds": ids, "ackDeadlineSeconds": seconds})

    def _ask(self, verb: str, content: dict[str, Any], **arguments: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token else {}
        url = f"{self._url}:{verb}"
        return ask(self._client, WHO, "POST", url, json=content, headers=headers, **arguments)


def open_pubsub(settings: Settings) -> PubSubQueue:
    name = settings.require("pubsub_subscription")
    if not _SUBSCRIPTION.fullmatch(name):
        raise QueueSetupError(
            f"pubsub_subscription {name!r}: expected projects/PROJECT/subscriptions/NAME, "
            "or http://HOST:PORT/v1/projects/PROJECT/subscriptions/NAME for an emulator"
        )
    if name.startswith("http://"):
        return PubSubQueue(open_client(), name, None, settings.queue_wait_s)
    token = google_token()
    return PubSubQueue(open_client(), GOOGLE + name, token, settings.queue_wait_s)


def google_token() -> Token:
    """Return a source of access tokens, renewed when they expire.

    The credentials are those of the machine, the pod or the user.
    """
    try:
        auth, requests = import_module("google.auth"), import_module("google.auth.transport.requests")
        problems = import_module("google.auth.exceptions")
    except ImportError as error:
        raise QueueSetupError("Pub/Sub needs google-auth: pip install google-auth requests") from error
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except problems.GoogleAuthError as error:
        raise QueueSetupError(f"no credentials for Google Cloud: {error}") from error

    def token() -> str:
        try:
            if not credentials.valid:
                credentials.refresh(requests.Request())
        except problems.GoogleAuthError as error:
            raise QueueUnavailableError(f"{WHO}: no access token: {error}") from error
        return str(credentials.token)

    return token


def _id(message: msgspec.Raw) -> str:
    return msgspec.json.decode(message, type=_Head).id

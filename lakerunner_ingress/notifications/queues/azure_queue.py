"""Azure storage queues are polled over REST with a SAS token.

Its interface cannot wait for messages, so the loop polls. Event Grid writes base64; plain JSON, as
other tools write it, begins with a character that base64 does not know.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Sequence
from xml.etree import ElementTree as ET

import httpx

from lakerunner_ingress.notifications.queues.queue import (
    QueueMessage,
    QueueSetupError,
    QueueUnavailableError,
    RefusedError,
    ask,
    open_client,
)
from lakerunner_ingress.notifications.shapes import Shape
from lakerunner_ingress.notifications.shapes.azure import parse_azure
from resources.settings import Settings

log = logging.getLogger(__name__)
WHO = "Azure queue"
MOST = 32
IDLE_S = 2.0
MAX_HOLD_S = 7 * 24 * 3600
GONE = ("MessageNotFound", "PopReceiptMismatch")
HEADERS = {"x-ms-version": "2021-12-02"}


class AzureQueue:
    """The queue."""

    name = "azure-queue"

    def __init__(self, client: httpx.Client, url: str, sas: str, hold_s: int, idle_s: float) -> None:
        self._client = client
        self._url = f"{url.rstrip('/')}/messages"
        self._sas = dict(httpx.QueryParams(sas.removeprefix("?")))
        self.hold_s = float(hold_s)
        self.idle_s = idle_s
        self.shape: Shape = parse_azure

    def receive(self) -> list[QueueMessage]:
        answer = self._ask("GET", "", numofmessages=str(MOST), visibilitytimeout=str(int(self.hold_s)))
        try:
            # Azure's own answer; expat bounds the expansion of entities.
            root = ET.fromstring(answer.content)  # noqa: S314
        except ET.ParseError as error:
            raise QueueUnavailableError(f"{WHO}: an answer that cannot be read: {error}") from error
        return [_message(message) for message in root.iter("QueueMessage")]

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        for message in messages:
            self._update("DELETE", message)

    def release(self, messages: Sequence[QueueMessage]) -> None:
        for message in messages:
            self._update("PUT", message, visibilitytimeout="0")

    def close(self) -> None:
        self._client.close()

    def _update(self, method: str, message: QueueMessage, **parameters: str) -> None:
        try:
            self._ask(method, f"/{message.id}", popreceipt=message.handle, **parameters)
        except RefusedError as error:
            if not any(code in str(error) for code in GONE):
                raise
            # its lease is over: another process has it, or has already deleted it
            log.warning(
                "%s: message %s is leased to another process or deleted: %s", self.name, message.id, error
            )

    def _ask(self, method: str, path: str, **parameters: str) -> httpx.Response:
        return ask(
            self._client, WHO, method, self._url + path, params=parameters | self._sas, headers=HEADERS
        )


def open_azure_queue(settings: Settings) -> AzureQueue:
    url, sas = settings.require("azure_queue_url"), settings.require("azure_queue_sas_token")
    if not url.startswith(("https://", "http://")) or "?" in url:
        raise QueueSetupError(
            "azure_queue_url: expected https://ACCOUNT.queue.core.windows.net/QUEUE, the token goes into "
            "azure_queue_sas_token"
        )
    if not 0 < settings.azure_queue_visibility_s <= MAX_HOLD_S:
        raise QueueSetupError(
            f"azure_queue_visibility_s {settings.azure_queue_visibility_s}: expected 1 to {MAX_HOLD_S}"
        )
    idle_s = min(IDLE_S, max(0.1, settings.queue_wait_s))
    return AzureQueue(open_client(), url, sas, settings.azure_queue_visibility_s, idle_s)


def _message(message: ET.Element) -> QueueMessage:
    return QueueMessage(
        message.findtext("MessageId", ""),
        message.findtext("PopReceipt", ""),
        _body(message.findtext("MessageText") or ""),
    )


def _body(text: str) -> bytes:
    """Return the JSON in a message; anything else stays unchanged and becomes a dead letter.

    >>> _body("eyJhIjoxfQ=="), _body('{"a":1}'), _body("nonsense")
    (b'{"a":1}', b'{"a":1}', b'nonsense')
    """
    plain = text.encode()
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return plain
    return found if found.lstrip()[:1] in {b"{", b"["} else plain

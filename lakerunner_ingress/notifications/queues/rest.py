"""One HTTP request to a queue: the answer if it is 2xx, else an error with the server's words.

Addresses may carry a secret (Azure's SAS token), so none is ever logged: httpx itself logs them otherwise.
"""

from __future__ import annotations

import logging
from typing import Any

import httpx

from lakerunner_ingress.notifications.queues.queue import QueueUnavailableError, RefusedError

CONNECT_S, ANSWER_S = 5.0, 30.0
MAX_TEXT = 300


def open_client() -> httpx.Client:
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx.Client(timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S))


def ask(client: httpx.Client, who: str, method: str, url: str, **arguments: Any) -> httpx.Response:
    """Redirects are not followed: they would carry the secret elsewhere."""
    try:
        answer = client.request(method, url, **arguments)
    except httpx.TransportError as error:
        raise QueueUnavailableError(f"{who}: {type(error).__name__}: {error}") from error
    if not answer.is_success:
        text = " ".join(answer.text.split())[:MAX_TEXT]
        raise RefusedError(f"{who} answered {answer.status_code}: {text}", answer.status_code)
    return answer

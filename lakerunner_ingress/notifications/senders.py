"""Who sent a notification: a signature, a secret in the headers, or (where senders set none) in the address.

A signature is `X-Lakerunner-Signature: sha256=HEX`, the HMAC of `X-Lakerunner-Timestamp` (Unix seconds), a
dot and the body. An old timestamp is refused, so that a recorded request is worth nothing after a while.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass

from lakerunner_ingress.auth import Caller, identify, presented
from lakerunner_ingress.errors import UnauthorizedError
from resources.index.contract import KeyIndex

SIGNATURE, TIMESTAMP = "x-lakerunner-signature", "x-lakerunner-timestamp"
MAX_SKEW_S = 300
TOKEN_PARAMETER = "token"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class Secrets:
    """What may speak for every organisation; an empty one lets nobody in."""

    token: str = ""
    hmac_key: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """The parts of a request that can prove who sent it; `query` is empty where an address proves nothing."""

    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str]


def sender(sent: Sent, secrets: Secrets, index: KeyIndex) -> Caller:
    """The caller, or `UnauthorizedError` / `ForbiddenError`."""
    if sent.headers.get(SIGNATURE):
        _check_signature(sent, secrets.hmac_key, time.time())
        return Caller()
    secret = presented(sent.headers) or sent.query.get(TOKEN_PARAMETER, "").strip()
    return identify(secret, secrets.token, index)


def signature(key: str, timestamp: str, body: bytes) -> str:
    """
    >>> signature("key", "1767323045", b"{}")[:20]
    'sha256=1d533de094100'
    """
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


def _check_signature(sent: Sent, key: str, now: float) -> None:
    if not key:
        raise UnauthorizedError("signed requests are not set up here (webhook_hmac_key)")
    timestamp = sent.headers.get(TIMESTAMP, "").strip()
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise UnauthorizedError(f"{TIMESTAMP}: expected Unix seconds")
    given = sent.headers[SIGNATURE].strip().lower()
    if not hmac.compare_digest(given.encode(), signature(key, timestamp, sent.body).encode()):
        raise UnauthorizedError(f"{SIGNATURE} does not fit the body and {TIMESTAMP}")
    if abs(now - int(timestamp)) > MAX_SKEW_S:
        raise UnauthorizedError(f"{TIMESTAMP} is more than {MAX_SKEW_S} s from this server's clock")

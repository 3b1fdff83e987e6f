"""Who is calling: the holder of the webhook token, who may speak for all, or of one organisation's key.

The token is compared in constant time; keys are looked up by their sha256, which is all that is stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from lakerunner_ingress.errors import ForbiddenError, UnauthorizedError
from resources.index.contract import KeyIndex

KEY_HEADERS = ("x-cardinalhq-api-key", "api-key")
WRITING_ROLES = frozenset({"write", "admin"})


@dataclass(frozen=True, slots=True)
class Caller:
    """`org` is empty for whoever may speak for all: the webhook token, a signed request, a queue."""

    org: str = ""
    via: str = "webhook"

    @property
    def name(self) -> str:
        return f"{self.via}:{self.org}" if self.org else self.via


def authenticate(headers: Mapping[str, str], webhook_token: str, index: KeyIndex) -> Caller:
    """The caller, or `UnauthorizedError` / `ForbiddenError`."""
    return identify(presented(headers), webhook_token, index)


def identify(secret: str, webhook_token: str, index: KeyIndex) -> Caller:
    """Whose `secret` it is: the webhook token, or an API key that may write."""
    if not secret:
        raise UnauthorizedError("expected `Authorization: Bearer TOKEN` or an API key")
    if webhook_token and hmac.compare_digest(secret.encode(), webhook_token.encode()):
        return Caller()
    key = index.find_api_key(hashlib.sha256(secret.encode()).digest())
    if key is None:
        raise UnauthorizedError("unknown token or API key")
    if key.role not in WRITING_ROLES:
        raise ForbiddenError("this API key may only read")
    return Caller(key.org)


def presented(headers: Mapping[str, str]) -> str:
    """The secret in the headers, or nothing; `Basic` carries it as password, or as user without one."""
    for name in KEY_HEADERS:
        if headers.get(name):
            return headers[name].strip()
    scheme, _, rest = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "basic":
        user, _, password = _basic(rest.strip()).partition(":")
        return password or user
    return rest.strip() if scheme.lower() == "bearer" else scheme if not rest else ""


def _basic(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except ValueError:  # not ASCII, not base64, or not UTF-8 inside: no secret, and so refused
        return ""

"""Who is calling: the holder of the webhook token, who may speak for all, or of one organisation's key.

The token is compared in constant time; keys are looked up by their sha256, which is all that is stored.
"""

from __future__ import annotations

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
    """`org` is empty for the webhook token."""

    org: str = ""

    @property
    def name(self) -> str:
        return f"webhook:{self.org}" if self.org else "webhook"


def authenticate(headers: Mapping[str, str], webhook_token: str, index: KeyIndex) -> Caller:
    """The caller, or `UnauthorizedError` / `ForbiddenError`."""
    secret = _presented(headers)
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


def _presented(headers: Mapping[str, str]) -> str:
    for name in KEY_HEADERS:
        if headers.get(name):
            return headers[name].strip()
    scheme, _, rest = headers.get("authorization", "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else scheme if not rest else ""

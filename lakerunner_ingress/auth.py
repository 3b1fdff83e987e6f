"""Authentication of callers: notification senders, who may speak for all, and organisations that push.

The webhook token is compared in constant time; keys are looked up by their sha256, which is all that is
stored. A signature is `X-Lakerunner-Signature: sha256=HEX`, the HMAC of `X-Lakerunner-Timestamp` (Unix
seconds), a dot and the body; an old timestamp is refused, so that a recorded request soon is worth nothing.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakerunner_ingress.errors import ForbiddenError, UnauthorizedError
from lakerunner_ingress.threads import WorkerThreads
from resources.index.account_types import ApiKey
from resources.index.contract import KeyIndex
from resources.index.postgres.connections import IndexUnavailableError

KEY_HEADERS = ("x-cardinalhq-api-key", "api-key")
WRITING_ROLES = frozenset({"write", "admin"})


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated sender."""

    org: str = ""
    """Organisation; empty for senders that speak for all: the webhook token, a signed request, a queue."""
    via: str = "webhook"

    @property
    def name(self) -> str:
        return f"{self.via}:{self.org}" if self.org else self.via


def authenticate(headers: Mapping[str, str], webhook_token: str, index: KeyIndex) -> Caller:
    """Return the caller, or raise `UnauthorizedError` or `ForbiddenError`."""
    return identify(secret_in(headers), webhook_token, index)


def identify(secret: str, webhook_token: str, index: KeyIndex) -> Caller:
    """Return the owner of a secret: the webhook token, or an API key that may write."""
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


def secret_in(headers: Mapping[str, str]) -> str:
    """Return the secret in the headers, or an empty text.

    `Basic` carries it as password, or as user without one.
    """
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


SIGNATURE, TIMESTAMP = "x-lakerunner-signature", "x-lakerunner-timestamp"
MAX_SKEW_S = 300
TOKEN_PARAMETER = "token"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class Secrets:
    """Secrets that speak for every organisation; an empty one lets nobody in."""

    token: str = ""
    hmac_key: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The parts of a request that can prove its sender; `query` is empty where an address proves nothing."""

    headers: Mapping[str, str]
    body: bytes
    query: Mapping[str, str]


def authenticate_sender(credentials: Credentials, secrets: Secrets, index: KeyIndex) -> Caller:
    """Check a signature, or a secret in the headers or, where senders set none, in the address."""
    if credentials.headers.get(SIGNATURE):
        _check_signature(credentials, secrets.hmac_key, time.time())
        return Caller()
    secret = secret_in(credentials.headers) or credentials.query.get(TOKEN_PARAMETER, "").strip()
    return identify(secret, secrets.token, index)


def signature(key: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request.

    >>> signature("key", "1767323045", b"{}")[:20]
    'sha256=1d533de094100'
    """
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


def _check_signature(credentials: Credentials, key: str, now: float) -> None:
    if not key:
        raise UnauthorizedError("signed requests are not set up here (webhook_hmac_key)")
    timestamp = credentials.headers.get(TIMESTAMP, "").strip()
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise UnauthorizedError(f"{TIMESTAMP}: expected Unix seconds")
    given = credentials.headers[SIGNATURE].strip().lower()
    if not hmac.compare_digest(given.encode(), signature(key, timestamp, credentials.body).encode()):
        raise UnauthorizedError(f"{SIGNATURE} does not fit the body and {TIMESTAMP}")
    if abs(now - int(timestamp)) > MAX_SKEW_S:
        raise UnauthorizedError(f"{TIMESTAMP} is more than {MAX_SKEW_S} s from this server's clock")


FRESH_S = 5.0
STALE_S = 600.0
MAX_KEYS = 10_000
TENANT = "x-scope-orgid"


class StaleKeyError(LookupError):
    """The key was not looked up lately; the lookup blocks."""


class KeyCache:
    """A cache of API keys; keys that do not exist are never cached.

    A key is looked up at most every few seconds, and the last answer holds while the index is away: senders
    go on while PostgreSQL restarts. So a revoked key can push for `FRESH_S` longer, and for `STALE_S` during
    an outage of the index.
    """

    def __init__(self, index: KeyIndex, clock: Callable[[], float] = time.monotonic) -> None:
        self._index = index
        self._clock = clock
        self._known: dict[bytes, tuple[float, ApiKey]] = {}

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        """Look a key up, which blocks.

        Raises `IndexUnavailableError` only for a key that was not seen lately.
        """
        now = self._clock()
        try:
            found = self._index.find_api_key(key_hash)
        except IndexUnavailableError:
            asked, key = self._known.get(key_hash, (now - STALE_S, None))
            if key is None or now - asked >= STALE_S:
                raise
            return key
        if found is None:
            self._known.pop(key_hash, None)
            return None
        if len(self._known) >= MAX_KEYS:
            self._known.clear()
        self._known[key_hash] = (now, found)
        return found

    def fresh_key(self, key_hash: bytes) -> ApiKey:
        asked, key = self._known.get(key_hash, (0.0, None))
        if key is None or self._clock() - asked >= FRESH_S:
            raise StaleKeyError
        return key


class _FreshKeys:
    """The same cache without a way to block."""

    def __init__(self, cache: KeyCache) -> None:
        self._cache = cache

    def find_api_key(self, key_hash: bytes) -> ApiKey | None:
        return self._cache.fresh_key(key_hash)


class PushAuthenticator:
    """Finds the organisation of a push; the webhook token belongs to none and cannot push."""

    def __init__(self, index: KeyIndex, workers: WorkerThreads) -> None:
        self._keys = KeyCache(index)
        self._workers = workers

    async def organisation_of(self, headers: Mapping[str, str]) -> str:
        """Return the organisation of the key, or raise `UnauthorizedError` or `ForbiddenError`."""
        try:
            org = authenticate(headers, "", _FreshKeys(self._keys)).org
        except StaleKeyError:
            org = (await self._workers.run(lambda: authenticate(headers, "", self._keys))).org
        tenant = headers.get(TENANT, "")
        if tenant not in {"", org}:
            raise ForbiddenError(f"X-Scope-OrgID is {tenant[:64]!r}, but this API key is of {org!r}")
        return org

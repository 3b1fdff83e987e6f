"""An API key in one of the accepted headers becomes an organisation and a role.

Only the sha256 of a key is ever looked up. Everything behind the guard is scoped by the organisation found
here; no parameter of a request can name another one, and a header that does is refused.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from litestar.connection import ASGIConnection
from litestar.datastructures import Headers
from litestar.handlers import BaseRouteHandler

from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import ForbiddenError, UnauthorizedError
from resources.index.account_types import ApiKey

READERS = frozenset({"read", "admin"})
ADMIN = "admin"
TENANT = "x-scope-orgid"
"""Header in which clients of Loki and Mimir name their tenant."""
_ACCEPTED = "x-cardinalhq-api-key, Api-Key, or Authorization: Bearer | ApiKey | Basic"


async def require_reader(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Leave the caller in the connection's state, or refuse the request."""
    services: Services = connection.app.state.services
    connection.state.caller = await reader_of(services, connection.headers)


async def require_admin(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse a request whose key may read and change nothing."""
    await require_reader(connection, handler)
    role = connection.state.caller.role
    if role != ADMIN:
        raise ForbiddenError(f"this key has role {role!r}; changing rules needs {ADMIN}")


async def reader_of(services: Services, headers: Headers) -> ApiKey:
    """Return the key of a request that may read; refuse one without such a key."""
    presented = presented_keys(headers)
    if not presented:
        raise UnauthorizedError(f"no API key; send it as {_ACCEPTED}")
    found = await reader_key(services, presented)
    check_tenant(headers, found.org)
    return found


async def reader_key(services: Services, presented: Sequence[str]) -> ApiKey:
    """Return the first of these keys that is known, if it may read."""
    for key in presented:
        found = await services.locator.api_key(hashlib.sha256(key.encode()).digest())
        if found is not None:
            return _reader(found)
    raise UnauthorizedError("unknown, revoked or expired API key")


def check_tenant(headers: Headers, org: str) -> None:
    """Refuse a request that names another organisation than its key's, as the ingress does."""
    tenant = headers.get(TENANT, "")
    if tenant not in {"", org}:
        raise ForbiddenError(f"X-Scope-OrgID is {tenant[:64]!r}, but this API key is of {org!r}")


def presented_keys(headers: Headers) -> list[str]:
    """Return every key in the request; Basic may carry it as password or as user."""
    found = [headers.get("x-cardinalhq-api-key", ""), headers.get("api-key", "")]
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() in {"bearer", "apikey"}:
        found.append(value.strip())
    elif scheme.lower() == "basic":
        user, _, password = _basic(value.strip()).partition(":")
        found += [password, user]
    return list(dict.fromkeys(key for key in found if key))


def caller(request_state: Any) -> ApiKey:
    """Return the key that the guard accepted."""
    found: ApiKey = request_state.caller
    return found


def _reader(key: ApiKey) -> ApiKey:
    if key.role not in READERS:
        raise ForbiddenError(f"this key has role {key.role!r}; queries need read or admin")
    return key


def _basic(value: str) -> str:
    """Decode user and password; some drivers leave out the padding."""
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except ValueError:  # not ASCII, not base64, or not UTF-8 inside
        return ""

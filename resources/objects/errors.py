"""Errors of object storage are types that name the object.

The library's messages carry whole requests: only their first line is kept, and query strings (which hold
signatures and SAS tokens) are cut out. Transient means "worth another try", nothing else is ever retried.
"""

from __future__ import annotations

import re

from obstore import exceptions as native

MAX_DETAIL = 300
_QUERY_STRING = re.compile(r"\?[^\s\"')]+")


class StoreError(RuntimeError):
    """Failed operation on an object; `key` is the object."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key

    def __reduce__(self) -> tuple[type[StoreError], tuple[str, str]]:
        return type(self), (self.key, str(self))


class NotFoundError(StoreError):
    """Missing object (or bucket)."""


class AlreadyExistsError(StoreError):
    """Create-only put whose key exists; the object there is unchanged."""


class ChangedError(StoreError):
    """Object that was replaced while it was being read."""


class TooLargeError(StoreError):
    """Object that is larger than the reader can hold; nothing of it was read."""


class DeniedError(StoreError):
    """Credentials that the store refused."""


class UnavailableError(StoreError):
    """Store that did not answer after every retry: pause, the object itself is not to blame."""


_KINDS: tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...] = (
    ((FileNotFoundError,), NotFoundError, "no such object"),
    ((native.AlreadyExistsError,), AlreadyExistsError, "the key is taken"),
    ((native.PreconditionError,), ChangedError, "the object changed while it was read"),
    ((native.PermissionDeniedError, native.UnauthenticatedError), DeniedError, "access denied"),
    ((native.InvalidPathError, native.NotSupportedError, ValueError), StoreError, "refused"),
    ((native.BaseError, OSError), UnavailableError, "the store failed"),
)
FAILURES = (native.BaseError, OSError, ValueError)


def translate(error: Exception, operation: str, url: str, key: str) -> StoreError:
    """Return the typed error for what obstore raised while doing `operation` on `key`."""
    kind, text = next((kind, text) for types, kind, text in _KINDS if isinstance(error, types))
    return kind(key, f"{operation} {url.rstrip('/')}/{key}: {text} ({detail(error)})")


def detail(error: Exception) -> str:
    """Return the first line of the library's message, without query strings."""
    first = str(error).strip().splitlines() or [type(error).__name__]
    return _QUERY_STRING.sub("?…", first[0])[:MAX_DETAIL]

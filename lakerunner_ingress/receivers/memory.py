"""Memory of pushes, from arrival until their object is durable, in shares per organisation.

One organisation may use up to `SHARE` times what would then still be free: alone three quarters of the
whole, beside another that does the same three sevenths. So a quarter is left for whoever comes next, and it
is always the organisation with the most that is told to wait.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from lakerunner_ingress.errors import OverloadedError
from lakerunner_ingress.receivers.refusals import TooLargeError

SHARE = 3


class Memory:
    """The memory of a process; thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.used_by: dict[str, int] = {}
        self.lock = threading.Lock()

    def hold(self, org: str = "") -> Hold:
        """Return the memory of one push; without an organisation it may use the whole."""
        return Hold(self, org)

    def _most_of(self, org: str) -> int:
        return self.limit * SHARE // (SHARE + 1) if org else self.limit

    def take(self, org: str, size: int, had: int) -> None:
        """Reserve `size` bytes for a push that has `had`, or raise; the caller has the lock."""
        if had + size > self._most_of(org):
            raise TooLargeError(
                f"this request alone needs more than the {self._most_of(org)} bytes there are"
            )
        if self.used + size > self.limit:
            raise OverloadedError(f"{self.used} of {self.limit} bytes are in use; send this again")
        mine = self.used_by.get(org, 0)
        if org and mine + size > SHARE * (self.limit - self.used - size):
            raise OverloadedError(f"{org} has {mine} of {self.limit} bytes in use; send this again")
        self.used += size
        self.used_by[org] = mine + size

    def give_back(self, org: str, size: int) -> None:
        """Return `size` bytes; the caller has the lock."""
        self.used -= size
        left = self.used_by.get(org, 0) - size
        if left > 0:
            self.used_by[org] = left
        else:
            self.used_by.pop(org, None)


class Hold:
    """The memory of one push; the end of the `with` block returns all of it.

    An abandoned worker thread may still run then: its requests for memory are refused.
    """

    def __init__(self, memory: Memory, org: str) -> None:
        self._memory = memory
        self._org = org
        self._size = 0
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._memory.lock:
            self._memory.give_back(self._org, self._size)
            self._size, self._over = 0, True

    def grow(self, size: int) -> None:
        """Reserve memory before it is used, or raise `OverloadedError`."""
        with self._memory.lock:
            if self._over:
                raise OverloadedError("the request is over; send this again")
            self._memory.take(self._org, size, self._size)
            self._size += size

    @property
    def size(self) -> int:
        return self._size

    def shrink_to(self, size: int) -> None:
        """Return the memory beyond `size`."""
        with self._memory.lock:
            given = max(0, self._size - size)
            self._memory.give_back(self._org, given)
            self._size -= given

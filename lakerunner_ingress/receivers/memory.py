"""One bound on the bytes of all requests in flight; whoever would cross it is told to come back."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from lakerunner_ingress.errors import OverloadedError
from lakerunner_ingress.receivers.refusals import TooLargeError


class Memory:
    """Thread-safe. Counts bodies as received and as opened, until their object is durable."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.lock = threading.Lock()

    def hold(self) -> Hold:
        return Hold(self)


class Hold:
    """What one request has taken; leaving the `with` block gives all of it back.

    A worker thread that was given up on may still run then: what it asks for is refused.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
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
            self._memory.used -= self._size
            self._size, self._over = 0, True

    def grow(self, size: int) -> None:
        """Before the bytes exist; `OverloadedError` when there is no room for them now."""
        memory = self._memory
        with memory.lock:
            if self._size + size > memory.limit:
                raise TooLargeError(f"this request alone needs more than the {memory.limit} bytes there are")
            if self._over or memory.used + size > memory.limit:
                raise OverloadedError(f"{memory.used} of {memory.limit} bytes are in use; send this again")
            memory.used += size
            self._size += size

    @property
    def size(self) -> int:
        return self._size

    def shrink_to(self, size: int) -> None:
        """Give back what is beyond `size`."""
        memory = self._memory
        with memory.lock:
            given = max(0, self._size - size)
            memory.used -= given
            self._size -= given

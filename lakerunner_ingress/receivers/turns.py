"""Turns: organisations take them one after the other, whatever each of them has waiting."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Turns(Generic[Item]):
    """A queue of distinct items per organisation; each organisation in turn gives its oldest one.

    >>> turns: Turns[str] = Turns()
    >>> for org, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")):
    ...     turns.add(org, item)
    >>> turns.discard("a", "a2")
    >>> [turns.take() for _ in range(3)]
    ['a1', 'b1', 'a3']
    """

    def __init__(self) -> None:
        self._queues: dict[str, dict[Item, None]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __bool__(self) -> bool:
        return bool(self._queues)

    def waiting(self, org: str) -> int:
        return len(self._queues.get(org, ()))

    def add(self, org: str, item: Item) -> None:
        self._queues.setdefault(org, {})[item] = None

    def discard(self, org: str, item: Item) -> None:
        """Remove an item, if it is there."""
        queue = self._queues.get(org, {})
        queue.pop(item, None)
        if not queue:
            self._queues.pop(org, None)

    @property
    def orgs(self) -> Iterable[str]:
        """Organisations with something in the queue, that whose turn it is first."""
        return self._queues

    def take(self, org: str | None = None) -> Item:
        """Remove and return the oldest item of `org`, else of the organisation whose turn it is."""
        org = next(iter(self._queues)) if org is None else org
        queue = self._queues.pop(org)
        item = next(iter(queue))
        del queue[item]
        if queue:
            self._queues[org] = queue  # behind the others
        return item

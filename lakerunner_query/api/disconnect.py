"""Noticing that whoever asked has gone, so that their work stops within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from litestar import Request

Answer = TypeVar("Answer")


class ClientGoneError(Exception):
    """Nobody is waiting for this answer any more."""


async def watch(request: Request[Any, Any, Any], gone: Callable[[], object]) -> None:
    """Call `gone` when the connection closes; the request's body must have been read before."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            gone()
            return


async def unless_gone(request: Request[Any, Any, Any], work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of `work`, which is cancelled when the connection closes first."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.create_task(watch(request, task.cancel))
    try:
        return await task
    except asyncio.CancelledError:
        if watcher.done():
            raise ClientGoneError from None
        raise
    finally:
        watcher.cancel()
        task.cancel()

"""Tails and questions to the index are limited per organisation, like queries."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack

import pytest

from lakerunner_query.errors import TooManyQueriesError
from lakerunner_query.fairness import MOST_PREPARING, PREPARING, Admission
from tests.support.patience import PATIENCE_S


def test_tails_of_one_organisation_are_counted() -> None:
    admission = Admission(8, tails=2)
    with ExitStack() as opened:
        for _ in range(2):
            opened.enter_context(admission.tail("acme"))
        with pytest.raises(TooManyQueriesError, match=r"count > limit \(3 > 2\)"), admission.tail("acme"):
            pass
        with admission.tail("other"):
            pass
    with admission.tail("acme"):
        pass
    assert not admission._tails


def test_planning_of_one_organisation_leaves_room_for_another() -> None:
    async def run() -> None:
        admission = Admission(8)
        async with AsyncExitStack() as held:
            for _ in range(PREPARING):
                await held.enter_async_context(admission.prepare("busy"))
            waiting = [asyncio.ensure_future(_prepare(admission, "busy")) for _ in range(MOST_PREPARING)]
            await asyncio.sleep(0)
            assert not any(one.done() for one in waiting)
            async with asyncio.timeout(PATIENCE_S):
                await _prepare(admission, "other")
            with pytest.raises(TooManyQueriesError, match="requests of this organisation are waiting"):
                await _prepare(admission, "busy")
        await asyncio.gather(*waiting)

    asyncio.run(run())


async def _prepare(admission: Admission, org: str) -> None:
    async with admission.prepare(org):
        await asyncio.sleep(0)

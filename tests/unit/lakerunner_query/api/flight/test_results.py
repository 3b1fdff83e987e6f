"""Results of statements: their pace, their end, tickets and prepared statements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest

from lakerunner_query.api.flight import results
from lakerunner_query.api.flight.results import (
    CancelledError,
    Finished,
    Opened,
    PreparedStatements,
    Results,
    RunningResult,
    Statement,
    Tickets,
    only_row,
    plain_value,
)
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import (
    InvalidRequestError,
    ParseError,
    QueryTimeoutError,
    SegmentsMissingError,
    TooManyQueriesError,
)
from lakerunner_query.protocol.units import Missing
from lakerunner_query.serving import Counters
from resources.settings import Settings
from tests.support.patience import PATIENCE_S
from tests.support.query.fake_lakeql import FakeLakeQL

LOGS = "SELECT message FROM logs"


@pytest.fixture
def lakeql() -> Iterator[FakeLakeQL]:
    fake = FakeLakeQL(rows=5000)
    yield fake
    fake.close()


def services_of(lakeql: FakeLakeQL, **more: Any) -> Services:
    nothing = cast("Any", None)
    settings = Settings(internal_token="internal", **more)
    return Services(settings, nothing, nothing, nothing, cast("Any", lakeql), Counters())


def statement(text: str = LOGS, org: str = "acme", number: int = 1) -> Statement:
    return Statement(str(number), org, text, (), 0)


async def read(result: RunningResult) -> tuple[Opened, list[pa.RecordBatch], Finished]:
    opened = await result.take()
    assert isinstance(opened, Opened)
    batches = []
    while not isinstance(piece := await result.take(), Finished):
        assert isinstance(piece, pa.RecordBatch)
        batches.append(piece)
    return opened, batches, piece


def test_a_result_has_columns_batches_and_an_end(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        lakeql.notices = ["read the last hour"]
        results = Results(services_of(lakeql))
        result = await results.start(statement(), takes_partial=False)
        opened, batches, finished = await read(result)
        assert opened.schema.names == ["message"]
        assert sum(batch.num_rows for batch in batches) == 5000
        told = msgspec.json.decode(finished.metadata)
        assert told["notices"] == opened.notices == ["read the last hour"]
        assert (told["partial"], told["statistics"]["rows"]) == ([], 5000)
        with pytest.raises(CancelledError):
            await result.take()
        await results.end(result)
        assert (lakeql.open_answers, results.count) == (0, 0)

    asyncio.run(check())


def test_batches_are_made_when_they_are_taken(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        results = Results(services_of(lakeql))
        result = await results.start(statement("SELECT 'endless', message FROM logs"), takes_partial=False)
        for _ in range(3):
            await result.take()
        await asyncio.sleep(0.05)
        assert lakeql.produced <= 5
        assert lakeql.open_answers == 1
        await results.end(result)
        assert lakeql.open_answers == 0

    asyncio.run(check())


def test_errors_come_before_the_columns(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        results = Results(services_of(lakeql))
        result = await results.start(statement("SELECT nope FROM logs"), takes_partial=False)
        with pytest.raises(ParseError) as error:
            await result.take()
        assert str(error.value.position) == "line 1, col 8"
        await results.end(result)

    asyncio.run(check())


def test_a_partial_answer_ends_with_an_error_unless_it_is_taken(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        lakeql.missing = {"s1": Missing("s1", "gone")}
        services = services_of(lakeql)
        results = Results(services)
        with pytest.raises(SegmentsMissingError, match=r"1 segments unreadable, e\.g\. s1: gone"):
            await read(await results.start(statement(), takes_partial=False))
        _, batches, finished = await read(await results.start(statement(), takes_partial=True))
        assert sum(batch.num_rows for batch in batches) == 5000
        assert finished.missing == ["partial: 1 segments unreadable, e.g. s1: gone"]
        rendered = services.query_times.render()
        assert 'api="flight",outcome="partial"' in rendered
        assert 'api="flight",outcome="segments_missing"' in rendered
        await results.close()

    asyncio.run(check())


def test_a_client_that_takes_nothing_is_left(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        results = Results(services_of(lakeql, query_stall_s=0.05))
        result = await results.start(statement("SELECT 'endless', message FROM logs"), takes_partial=False)
        await result.take()
        async with asyncio.timeout(PATIENCE_S):
            while lakeql.open_answers:  # noqa: ASYNC110 - the fake tells nobody
                await asyncio.sleep(0.01)
        with pytest.raises(QueryTimeoutError, match="took nothing"):
            await read_all(result)
        await results.close()

    asyncio.run(check())


async def read_all(result: RunningResult) -> None:
    while not isinstance(await result.take(), Finished):
        pass


@pytest.mark.parametrize("kind", ["endless", "waiting"])
def test_a_cancelled_statement_ends_and_does_not_begin_again(lakeql: FakeLakeQL, kind: str) -> None:
    async def check() -> None:
        results = Results(services_of(lakeql))
        asked = statement(f"SELECT '{kind}', message FROM logs")
        other = await results.start(statement(LOGS, number=2), takes_partial=False)
        result = await results.start(asked, takes_partial=False)
        await result.take()
        waiting = asyncio.ensure_future(read_all(result))
        await asyncio.sleep(0)
        await results.cancel(asked)
        with pytest.raises(CancelledError):
            await waiting
        with pytest.raises(CancelledError):
            await results.start(asked, takes_partial=False)
        await read(other)
        await results.close()
        assert lakeql.open_answers == 0

    asyncio.run(check())


def test_an_organisation_reads_so_many_results_at_a_time(lakeql: FakeLakeQL) -> None:
    async def check() -> None:
        results = Results(services_of(lakeql, query_max_streams=2))
        first, _ = [await results.start(statement(), takes_partial=False) for _ in range(2)]
        with pytest.raises(TooManyQueriesError, match="2 results"):
            await results.start(statement(), takes_partial=False)
        await results.start(statement(org="globex"), takes_partial=False)
        await results.end(first)
        await results.start(statement(), takes_partial=False)
        await results.close()
        assert results.count == 0

    asyncio.run(check())


def test_tickets_are_of_their_organisation_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    tickets = Tickets("token")
    ticket = tickets.issue("acme", LOGS, (1, "a", None, float("inf")))
    found = tickets.read(ticket, "acme")
    assert (found.org, found.text, found.parameters) == ("acme", LOGS, (1, "a", None, float("inf")))
    assert Tickets("token").read(ticket, "acme") == found
    for other, org in ((tickets, "globex"), (Tickets("another"), "acme")):
        with pytest.raises(InvalidRequestError, match="unknown ticket"):
            other.read(ticket, org)
    for place in range(len(ticket)):
        broken = bytearray(ticket)
        broken[place] ^= 1
        with pytest.raises(InvalidRequestError, match="unknown ticket"):
            tickets.read(bytes(broken), "acme")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + results.TICKET_S + 1)
    with pytest.raises(InvalidRequestError, match="expired"):
        tickets.read(ticket, "acme")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (None, None), (True, True), (5, 5), ("x", "x"), (1.5, 1.5), (Decimal("1.5"), 1.5),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05.000006"),
        (datetime.fromisoformat("2026-01-02"), "2026-01-02 00:00:00"),
    ],
)  # fmt: skip
def test_parameters_become_plain_values(given: object, plain: object) -> None:
    assert plain_value(given) == plain


@pytest.mark.parametrize("given", [b"x", [1], {"a": 1}])
def test_other_parameters_are_refused(given: object) -> None:
    with pytest.raises(InvalidRequestError, match="parameters are"):
        plain_value(given)


def test_integers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="64 bits"):
        Tickets("token").issue("acme", LOGS, (1 << 64,))


def test_there_is_one_row_of_parameters() -> None:
    batch = pa.record_batch({"1": ["a", "b"], "2": [1, 2]})
    assert only_row([batch.slice(0, 0), batch.slice(1, 1)]) == ("b", 2)
    for wrong in ([], [batch], [batch.slice(0, 1), batch.slice(0, 1)]):
        with pytest.raises(InvalidRequestError, match="expected one row"):
            only_row(wrong)


def test_prepared_statements_are_of_their_organisation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MAX_PREPARED", 2)
    prepared = PreparedStatements()
    first, second = (prepared.add("acme", LOGS, 1) for _ in range(2))
    with pytest.raises(InvalidRequestError, match="1 parameters, 0 are bound"):
        prepared.find(first, "acme").complete()
    with pytest.raises(InvalidRequestError, match="unknown"):
        prepared.find(first, "globex")
    with pytest.raises(InvalidRequestError, match="unknown"):
        prepared.close(first, "globex")
    foreign = prepared.add("globex", LOGS, 0)
    assert prepared.find(foreign, "globex").complete() == ()
    third = prepared.add("acme", LOGS, 0)
    prepared.find(third, "acme")
    with pytest.raises(InvalidRequestError, match="unknown"):
        prepared.find(second, "acme")  # the first one was used after it
    prepared.close(first, "acme")
    with pytest.raises(InvalidRequestError, match="unknown"):
        prepared.find(first, "acme")


def test_prepared_statements_without_use_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = PreparedStatements()
    handle = prepared.add("acme", LOGS, 0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + results.PREPARED_S + 1)
    prepared.add("globex", LOGS, 0)
    with pytest.raises(InvalidRequestError, match="unknown"):
        prepared.find(handle, "acme")


def test_a_request_holds_what_the_ticket_says() -> None:
    asked = Statement("1", "acme", LOGS, (7,), 0)
    assert (asked.request.org, asked.request.parameters) == ("acme", (7,))

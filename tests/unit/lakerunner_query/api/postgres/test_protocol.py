"""Messages of the protocol, one by one: what a driver sends, and what nobody should."""

from __future__ import annotations

import itertools
import struct

import psycopg

from tests.support.query.postgres_door import RunningDoor
from tests.support.query.postgres_wire import (
    FLUSH,
    SYNC,
    BareClient,
    bind,
    close,
    describe,
    execute,
    message,
    parse,
    query,
    sessions,
    startup,
)

FUZZED = 500
"""Messages; `benchmarks/fuzz_postgres.py` sends many more."""


def test_the_extended_protocol_answers_step_by_step(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        text = "SELECT duration_ms FROM logs WHERE duration_ms < $1 ORDER BY 1"
        assert client.ask(parse(text, types=(20,)), describe("S"), bind(b"3"), execute(), SYNC) == "1tT2DDDCZ"
        assert client.ask(parse(""), bind(), execute(), SYNC) == "12IZ"
        assert (
            client.ask(parse("SET jit = off"), describe("S"), bind(), describe("P"), execute(), SYNC)
            == "1tn2nCZ"
        )
        client.send(parse("SELECT 1"), FLUSH)
        assert client.read()[0] == b"1"
        assert client.ask(SYNC) == "Z"


def test_a_portal_is_read_in_portions(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        assert client.ask(query("BEGIN")) == "CZ"
        text = "SELECT duration_ms FROM logs ORDER BY 1 LIMIT 5"
        assert client.ask(parse(text), bind(portal="p"), execute(2, "p"), SYNC) == "12DDsZ"
        assert client.ask(execute(2, "p"), execute(2, "p"), execute(2, "p"), SYNC) == "DDsDCCZ"
        assert client.ask(bind(portal="p"), SYNC) == "EZ"
        client.ask(query("ROLLBACK"))
        assert client.ask(parse(text), bind(portal="p"), execute(2, "p"), SYNC) == "12DDsZ"
        assert client.ask(execute(2, "p"), SYNC) == "EZ"  # the implicit transaction took it along
        assert door.eventually(lambda: door.lakeql.open_answers == 0)


def test_what_follows_an_error_waits_for_sync(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        assert client.ask(parse("SELECT nope"), bind(), execute(), SYNC) == "12EZ"
        assert client.ask(bind(name="unknown"), execute(), close("P"), SYNC) == "EZ"
        assert client.ask(parse("SELECT $1::INT"), bind(), SYNC) == "1EZ"
        assert client.ask(parse("SELECT 1; SELECT 2"), SYNC) == "EZ"
        assert client.ask(describe("S", "x"), describe("P", "x"), SYNC) == "EZ"
        assert client.ask(close("S", "x"), close("P", "x"), SYNC) == "33Z"


def test_names_of_statements_are_taken_once(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        assert client.ask(parse("SELECT 1", "one"), SYNC) == "1Z"
        assert client.ask(parse("SELECT 1", "one"), SYNC) == "EZ"
        assert client.ask(query("DEALLOCATE one")) == "CZ"
        assert client.ask(query("DEALLOCATE one")) == "EZ"
        assert client.ask(parse("SELECT 1", "one"), query("DISCARD ALL")) == "1CZ"
        assert client.ask(describe("S", "one"), SYNC) == "EZ"


def test_types_of_parameters_are_inferred(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        client.send(parse("SELECT $1::INT FROM logs WHERE timestamp > $2 AND message = $3 LIMIT $4"))
        client.send(describe("S"), SYNC)
        told = dict(client.until_ready())[b"t"]
        assert struct.unpack(">h4I", told) == (4, 23, 1114, 25, 20)


def test_a_result_keeps_the_types_that_were_described(door: RunningDoor) -> None:
    with BareClient(door.port) as client:
        client.send(parse("SELECT $1 AS x"), describe("S"), SYNC)
        told = dict(client.until_ready())[b"T"]
        client.send(bind(b"5", binary=True), execute(), SYNC)
        row = dict(client.until_ready())[b"D"]
        assert told[10:14] == struct.pack(">I", 25)  # text: no value told more
        assert row == b"\0\1\0\0\0\x015"


def test_tls_and_gss_are_declined_where_there_is_no_certificate(door: RunningDoor) -> None:
    with BareClient(door.port, "") as client:
        client.send(struct.pack(">ii", 8, 80877104))
        assert client.raw(1) == b"N"
        client.send(struct.pack(">ii", 8, 80877103))
        assert client.raw(1) == b"N"
        client.send(startup(user="ann"))
        assert client.read() == (b"R", b"\0\0\0\3")


def test_newer_protocols_are_negotiated_down(door: RunningDoor) -> None:
    with BareClient(door.port, "") as client:
        client.send(startup(196610, user="ann", **{"_pq_.wish": "1"}))
        assert client.read() == (b"v", struct.pack(">ii", 196608, 1) + b"_pq_.wish\0")
        assert client.read() == (b"R", b"\0\0\0\3")
    with BareClient(door.port, "") as client:
        client.send(startup(131072, user="ann"))
        kind, body = client.read()
        assert kind == b"E"
        assert b"unsupported frontend protocol 2.0" in body


def test_messages_that_lie_about_themselves_end_the_session(door: RunningDoor) -> None:
    broken = (
        message(b"?"),
        b"Q" + struct.pack(">i", 2),
        b"Q" + struct.pack(">i", 1 << 30),
        message(b"B", b"\0\0\0\1"),
        message(b"Q", b"no end"),
        message(b"D", b"Zx\0"),
    )
    for one in broken:
        with BareClient(door.port) as client:
            client.send(one)
            kind, body = client.read()
            assert kind == b"E", one
            assert b"SFATAL" in body
            assert b"C08P01" in body
            assert client.read() == (b"", b"")
    with BareClient(door.port) as client:
        assert client.ask(message(b"Q", b"SELECT '\xff'\0")) == "EZ"  # no UTF-8: only the statement fails
        assert client.ask(query("SELECT 1")) == "TDCZ"


def test_a_first_message_is_small_and_a_password_is_asked_for_once(door: RunningDoor) -> None:
    for first in (struct.pack(">ii", 20_000, 196608), b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", 5) + b"x"):
        with BareClient(door.port, "") as client:
            client.send(first)
            assert client.read()[0] == b"E"
            assert client.read()[0] == b""
    with BareClient(door.port, "") as client:
        client.send(startup(user="ann"), query("SELECT 1"))
        assert [client.read()[0], client.read()[0], client.read()[0]] == [b"R", b"E", b""]


def test_mutated_messages_leave_no_session_and_no_work_behind(door: RunningDoor) -> None:
    sent = list(
        itertools.takewhile(lambda total: total < FUZZED, itertools.accumulate(sessions(7, door.port)))
    )
    assert len(sent) > 10
    assert door.eventually(lambda: door.door.sessions == 0)
    assert door.eventually(lambda: door.lakeql.open_answers == 0)
    with psycopg.connect(door.dsn()) as one:
        assert one.execute("SELECT 1").fetchone() == (1,)

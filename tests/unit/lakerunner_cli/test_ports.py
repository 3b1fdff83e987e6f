"""Which port a component gets."""

from __future__ import annotations

import socket

from lakerunner_cli.stack.ports import Reservations, any_free, choose, is_free


def test_free_ports_are_kept_without_a_word() -> None:
    said: list[str] = []
    assert choose({"a": 1000, "b": 1001}, said.append, lambda _port: True) == {"a": 1000, "b": 1001}
    assert said == []


def test_a_taken_port_moves_past_the_ports_of_the_others() -> None:
    said: list[str] = []
    chosen = choose({"a": 1000, "b": 1001}, said.append, lambda port: port != 1000)
    assert chosen == {"a": 1002, "b": 1001}
    assert said == ["port 1000 (a) is taken by another program, using 1002 instead"]


def test_two_names_never_share_a_port() -> None:
    chosen = choose({"a": 1000, "b": 1000, "c": 1001}, lambda _text: None, lambda _port: True)
    assert len(set(chosen.values())) == 3


def test_when_the_neighbourhood_is_full_any_free_port_will_do() -> None:
    (port,) = choose({"a": 1000}, lambda _text: None, lambda port: port > 2000).values()
    assert is_free(port)


def test_is_free_sees_a_listener_on_all_addresses() -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:  # noqa: S104 - that is the case to see
        assert not is_free(listener.getsockname()[1])
    assert is_free(any_free())


def test_a_reserved_port_is_not_given_twice() -> None:
    with Reservations() as mine, Reservations() as theirs:
        port = any_free()
        assert mine.take(port)
        assert is_free(port)  # for the component that will listen on it
        assert not theirs.take(port)
    with Reservations() as later:
        assert later.take(port)

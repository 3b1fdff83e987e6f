"""Chooses ports for components, and probes the components behind them.

The preferred port is the last one, which stands in `stack.env`, or the default; a change is announced. A port
is free if nothing listens on it (a socket of the last run in TIME_WAIT does not count) and no other stack has
reserved it: two stacks that start together would else both find it free.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Collection, Mapping
from http.client import HTTPConnection, HTTPException
from itertools import chain
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
NEIGHBOURS = 40
NEVER_OUTGOING = (10_240, 32_000)
"""First port of the range that systems use for outgoing connections."""
APART = 4
"""Distance of ports: some components take the next port as well."""
ATTEMPTS = 50


class Reservations:
    """Ports promised to components that do not listen yet.

    The mark is a UDP socket on the same number: exclusive, visible to every user of the machine, in nobody's
    way, and gone with the supervisor, however it ends.
    """

    def __init__(self) -> None:
        self._marks: list[socket.socket] = []

    def take(self, port: int) -> bool:
        """Reserve `port`, if it is free."""
        mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mark.bind((HOST, port))
        except OSError:
            mark.close()
            return False
        if not is_free(port):
            mark.close()
            return False
        self._marks.append(mark)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mark in self._marks:
            mark.close()


def is_free(port: int, host: str = HOST) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def any_free() -> int:
    """Return a port that no outgoing connection takes before the caller listens on it."""
    for port in random.sample(range(*NEVER_OUTGOING, APART), ATTEMPTS):
        if is_free(port):
            return port
    raise OSError(f"none of {ATTEMPTS} ports between {NEVER_OUTGOING} is free")


def choose(
    wanted: Mapping[str, int], announce: Callable[[str], None], take: Callable[[int], bool]
) -> dict[str, int]:
    """Choose a free port per name; no two names share one, and every change is announced."""
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        others = set(chosen.values()) | (set(wanted.values()) - {port})
        chosen[name] = _first_free(port, others, take)
        if chosen[name] != port:
            announce(f"port {port} ({name}) is taken by another program, using {chosen[name]} instead")
    return chosen


def _first_free(port: int, avoid: Collection[int], take: Callable[[int], bool]) -> int:
    near, far = range(port, min(port + NEIGHBOURS, 65535)), (any_free() for _ in range(ATTEMPTS))
    for candidate in chain(near, far):
        if candidate not in avoid and take(candidate):
            return candidate
    raise OSError(f"no free port was found near {port} or anywhere else")


def tcp(port: int) -> bool:
    """Probe by connecting; a refused connection is normal while a component starts."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def http(port: int, path: str, headers: Mapping[str, str] | None = None) -> bool:
    """Probe by an HTTP request; answer within about two seconds."""
    connection = HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        return 200 <= connection.getresponse().status < 300
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def grpc(target: str) -> bool:
    """Probe a gRPC server by any call: a refusal is an answer, too."""
    import grpc as library

    with library.insecure_channel(target) as channel:
        try:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=2)
        except library.RpcError as error:
            silent = (library.StatusCode.UNAVAILABLE, library.StatusCode.DEADLINE_EXCEEDED)
            return error.code() not in silent
    return True

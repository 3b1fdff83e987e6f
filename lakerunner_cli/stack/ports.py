"""Choosing ports: the wanted one if it is free, another one said aloud if not.

A port is wanted because it was used last time (it then stands in `stack.env`) or because it is the default.
Free means that nothing listens on it: a socket left in TIME_WAIT by our own last run does not count.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

HOST = "127.0.0.1"
NEIGHBOURS = 20


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
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def choose(
    wanted: Mapping[str, int], announce: Callable[[str], None], free: Callable[[int], bool] = is_free
) -> dict[str, int]:
    """A free port per name; no two names share one, and every change of port is announced."""
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        taken = set(chosen.values())
        chosen[name] = _first_free(port, taken | (set(wanted.values()) - {port}), free)
        if chosen[name] != port:
            announce(f"port {port} ({name}) is taken by another program, using {chosen[name]} instead")
    return chosen


def _first_free(port: int, avoid: Iterable[int], free: Callable[[int], bool]) -> int:
    refused = set(avoid)
    if port not in refused and free(port):
        return port
    near = range(port + 1, min(port + NEIGHBOURS, 65535))
    return next((p for p in near if p not in refused and free(p)), 0) or any_free()

"""Ways to ask a component whether it is ready; each answers within about two seconds.

A refused connection is the normal answer of something that is still starting, so it is `False`, not an error.
"""

from __future__ import annotations

import socket

from lakerunner_cli.stack.ports import HOST


def tcp(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def http(port: int, path: str) -> bool:
    import httpx

    try:
        return httpx.get(f"http://{HOST}:{port}{path}", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False

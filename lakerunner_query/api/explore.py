"""The Explore page: three static files of ours, no asset of anybody else's."""

from __future__ import annotations

from pathlib import Path

from litestar import Response, get
from litestar.exceptions import NotFoundException

_FILES = {
    "index.html": "text/html",
    "explore.js": "text/javascript",
    "explore.css": "text/css",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@get("/", include_in_schema=False, sync_to_thread=True)
def page() -> Response[bytes]:
    return _file("index.html")


@get("/explore/{name:str}", include_in_schema=False, sync_to_thread=True)
def asset(name: str) -> Response[bytes]:
    return _file(name)


def _file(name: str) -> Response[bytes]:
    if name not in _FILES:
        raise NotFoundException(f"no file {name!r}")
    content = (Path(__file__).parent / "static" / name).read_bytes()
    return Response(content, media_type=_FILES[name], headers=_HEADERS)

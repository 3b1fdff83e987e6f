"""The Explore page: static files of ours, no asset of anybody else's.

Log lines are written by strangers, so the page may load nothing from elsewhere, run no inline script and
turn no text into markup; the headers make a browser refuse what the code already avoids.
"""

from __future__ import annotations

from pathlib import Path

from litestar import Response, get
from litestar.exceptions import NotFoundException

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent / "static"
_FILES = {path.name: _TYPES[path.suffix] for path in _FOLDER.iterdir() if path.suffix in _TYPES}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
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
    return Response((_FOLDER / name).read_bytes(), media_type=_FILES[name], headers=_HEADERS)

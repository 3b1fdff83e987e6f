"""Health, metrics, the check of a key, and the Explore page.

Log lines are written by strangers, so the page may load nothing from elsewhere, run no inline script and
turn no text into markup; the headers make a browser refuse what the code already avoids.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException

from lakerunner_query.api.shared.auth import caller, require_reader
from lakerunner_query.api.shared.services import Services
from lakerunner_query.errors import IndexUnavailableError
from resources.exposition import CONTENT_TYPE

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent.parent / "static"
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


@get(["/livez", "/healthz"], media_type=MediaType.TEXT, sync_to_thread=False, tags=["health"])
def alive() -> str:
    """Answer as long as the process does."""
    return "ok\n"


@get(["/readyz", "/ready"], media_type=MediaType.TEXT, tags=["health"])
async def ready(services: Services) -> Response[str]:
    """Answer 200 if a query worker is ready and the index answers, or is known well enough without it."""
    is_ready, text = await readiness(services)
    return Response(text, status_code=200 if is_ready else 503, media_type=MediaType.TEXT)


@get("/metrics", media_type=CONTENT_TYPE, sync_to_thread=False, tags=["health"])
def metrics(services: Services) -> str:
    """Return Prometheus text: queries by outcome, requests by route and status, rows, bytes and units."""
    gauges = {**services.dispatcher.gauges(), **services.locator.gauges(), **services.engine.gauges()}
    return services.query_times.render() + services.counters.render(gauges=gauges)


@get("/api/v1/ping", guards=[require_reader], sync_to_thread=False, tags=["health"])
def ping(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Return the organisation and role of the presented key."""
    found = caller(request.state)
    return {"status": "ok", "organization": found.org, "role": found.role}


async def readiness(services: Services) -> tuple[bool, str]:
    """Tell whether queries can be answered, with the state of index and workers as text."""
    try:
        index, is_known = await services.locator.health(), True
    except IndexUnavailableError as error:
        index, is_known = error.message, False
    workers = await services.dispatcher.ready()
    return is_known and workers > 0, f"index: {index}\nworkers ready: {workers}\n"

"""Asks the query API for tables: `POST /api/v1/query`, as events or as an Arrow stream.

    data: {"type":"schema","data":[{"name":"n","type":"int64"}]}
    data: {"type":"result","data":{"rows":[[12]]}}
    data: {"type":"done","data":{"status":"complete","rows":1}}

Whoever stops reading closes the connection, which cancels the statement. A stream without its end is an
error.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx

from lakerunner_cli.command import CommandError
from lakerunner_cli.trace_rows import trace_rows
from lakerunner_cli.webhook import base_url
from resources.settings import Settings

PATH, SPANS, TRACES = "/api/v1/query", "/api/v1/spans/query", "/api/v1/traces"
EVENTS, ARROW = "text/event-stream", "application/vnd.apache.arrow.stream"
CONNECT_S = 5.0
SILENCE_S = 60.0
"""Seconds without a byte after which the server counts as gone; it sends a heartbeat every 15."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[1-9][0-9]{0,2}")
_PIECES = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|\$[A-Za-z_][A-Za-z0-9_]*)""")
Value = str | int | float | bool | None


class QueryFailedError(CommandError):
    """The query API refused a statement, or gave it up."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str

    @property
    def is_number(self) -> bool:
        return self.type.startswith(("int", "uint", "float", "double", "decimal", "half"))

    @property
    def is_time(self) -> bool:
        return self.type.startswith(("timestamp", "date"))


@dataclass(frozen=True, slots=True)
class Question:
    """A statement and what bounds it."""

    text: str
    start: str = ""
    end: str = ""
    limit: int = 0
    parameters: tuple[Value, ...] = ()
    engine: str = "auto"
    is_traceql: bool = False

    @property
    def path(self) -> str:
        return SPANS if self.is_traceql else PATH

    def body(self) -> dict[str, object]:
        asked = {
            "q": self.text,
            **({"s": self.start} if self.start else {}),
            **({"e": self.end} if self.end else {}),
        }
        if self.is_traceql:
            return asked | ({"limit": self.limit} if self.limit else {})
        return {
            **asked,
            "limit": self.limit,
            "parameters": list(self.parameters),
            **({"engine": self.engine} if self.engine != "auto" else {}),
        }


class QueryClient:
    """One query API, asked with one key."""

    def __init__(self, url: str, key: str) -> None:
        timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
        self._url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self._url, headers={"x-cardinalhq-api-key": key}, timeout=timeout, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def events(self, question: Question) -> Iterator[tuple[str, Any]]:
        """Yield kinds and data of rows up to `done`; raise an event of kind `error`."""
        found = self._events(question)
        return trace_rows(found) if question.is_traceql else found

    def _events(self, question: Question) -> Iterator[tuple[str, Any]]:
        with self._answer(question.path, question.body(), EVENTS, question.text) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data:"):
                    continue
                event = json.loads(line[5:])
                if event["type"] == "error":
                    raise QueryFailedError(explained(event["data"], question.text))
                yield event["type"], event["data"]
                if event["type"] == "done":
                    return
        raise QueryFailedError("the answer ended without its last event: the query API was stopped")

    def arrow(self, question: Question) -> Iterator[bytes]:
        """Yield the bytes of an Arrow stream; one that lacks segments is an error."""
        if question.is_traceql:
            raise CommandError("TraceQL has no Arrow stream: take --format csv or json")
        body = {**question.body(), "partial": False}
        with self._answer(PATH, body, ARROW, question.text) as answer:
            yield from answer.iter_bytes()

    def explain(self, question: Question) -> str:
        path = question.path.removesuffix("/query") if question.is_traceql else PATH
        with self._answer(f"{path}/explain", question.body(), "text/plain", question.text) as answer:
            return answer.read().decode()

    def trace(self, trace_id: str, parameters: Mapping[str, str | int]) -> dict[str, Any]:
        """Return one trace, put together."""
        path = f"{TRACES}/{quote(trace_id, safe='')}"
        with self._answer(path, parameters, "application/json", trace_id, "GET") as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found

    def call(self, method: str, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a JSON answer; fields are the body of a POST, else parameters."""
        found: dict[str, Any] = json.loads(self.text(method, path, fields))
        return found

    def text(self, method: str, path: str, fields: Mapping[str, Any]) -> str:
        """Return an answer of any form as text."""
        with self._answer(path, fields, "*/*", "", method) as answer:
            return answer.read().decode()

    @contextmanager
    def _answer(
        self, path: str, body: Mapping[str, Any], accept: str, text: str, method: str = "POST"
    ) -> Iterator[httpx.Response]:
        fields: dict[str, Any] = {"json": body} if method == "POST" else {"params": body}
        try:
            with self._http.stream(method, path, headers={"Accept": accept}, **fields) as answer:
                if answer.status_code != 200:
                    answer.read()
                    raise QueryFailedError(_refusal(answer, text))
                yield answer
        except httpx.ConnectError as error:
            raise CommandError(
                f"{self._url} cannot be reached ({error}); is the stack running? (`lakerunner status`)"
            ) from error
        except httpx.HTTPError as error:
            raise QueryFailedError(f"{self._url}: {type(error).__name__}: {error}") from error


def open_client(url: str, key: str, settings: Settings) -> QueryClient:
    """Open a client at the address and with the key of the arguments, else of the settings."""
    if not (key := key or settings.query_key):
        raise CommandError(
            "no API key: give --key, or set LAKERUNNER_QUERY_KEY; "
            "`lakerunner admin key create --org ORG --role read --name NAME` makes one"
        )
    return QueryClient(url or base_url(settings.query_host, settings.query_port), key)


def _refusal(answer: httpx.Response, text: str) -> str:
    try:
        told = answer.json()
    except ValueError:
        told = {}
    if not isinstance(told, dict) or "message" not in told:
        return f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}"
    return explained(told, text)


def explained(failure: Mapping[str, Any], text: str) -> str:
    """Write an error with the line of the statement and a caret below its place.

    >>> failure = {"message": "unknown column nope", "position": {"line": 1, "column": 8}}
    >>> print(explained(failure, "SELECT nope FROM logs"))
    unknown column nope
      SELECT nope FROM logs
             ^
    """
    message, place = str(failure["message"]), failure.get("position")
    lines = text.splitlines()
    if not place or not 1 <= place["line"] <= len(lines):
        return message
    line = lines[place["line"] - 1].replace("\t", " ")
    return f"{message}\n  {line}\n  {' ' * display_width(line[: place['column'] - 1])}^"


def display_width(text: str) -> int:
    """Count the cells that a terminal needs.

    >>> display_width("añ"), display_width("日本"), display_width("e\\u0301")
    (2, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def with_parameters(question: Question, given: Sequence[str]) -> Question:
    """Take `NAME=VALUE` into the question; `$NAME` in its text becomes `$1`, `$2`, …

    A value is text unless it reads as JSON: `7`, `1.5`, `true`, `null`, `"7"`.

    >>> found = with_parameters(Question("SELECT '$a', $b, $a"), ["a=web", "b=7"])
    >>> found.text, found.parameters
    ("SELECT '$a', $2, $1", ('web', 7))
    """
    if not given:
        return question
    values: dict[str, Value] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise CommandError(f"--param {one}: expected NAME=VALUE, as in service=web or 1=web")
        values[name] = _value(text)
    numbered = {int(name): value for name, value in values.items() if name.isdigit()}
    if sorted(numbered) != list(range(1, len(numbered) + 1)):
        raise CommandError(f"--param: {', '.join(map(str, sorted(numbered)))} are no numbers from 1 on")
    names = [name for name in values if not name.isdigit()]
    places = {f"${name}": f"${place}" for place, name in enumerate(names, len(numbered) + 1)}
    text = "".join(places.get(piece, piece) for piece in _PIECES.split(question.text))
    ordered = [numbered[place] for place in sorted(numbered)] + [values[name] for name in names]
    return replace(question, text=text, parameters=tuple(ordered))


def _value(text: str) -> Value:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if found is None or isinstance(found, str | int | float | bool) else text

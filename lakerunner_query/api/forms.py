"""What a request says, from a form and from its address, before any of it is understood.

As Go reads it, in which Prometheus and Loki are written: the first of repeated values counts, a form before
the address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from litestar import Request

from lakerunner_query.errors import InvalidRequestError

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 1000


@dataclass(frozen=True, slots=True)
class Given:
    first: Mapping[str, str]
    fields: tuple[tuple[str, str], ...]

    def text(self, name: str) -> str:
        return self.first.get(name, "")

    def all(self, *names: str) -> tuple[str, ...]:
        """Every value of a parameter that is a list, under any of its names."""
        return tuple(value for name, value in self.fields if name in names)


async def given(request: Request[Any, Any, Any]) -> Given:
    """The body is read even for GET: whoever watches for the caller to leave needs it out of the way."""
    body = await request.body()
    form = form_fields(body) if request.method != "GET" and request.content_type[0] == FORM else []
    fields = [*form, *request.query_params.multi_items()]
    return Given(first_of_each(fields), tuple(fields))


def form_fields(body: bytes) -> list[tuple[str, str]]:
    """A form's names and values; UTF-8 where nothing is escaped too, which the framework reads as Latin-1."""
    try:
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequestError(f"a form of more than {MAX_FIELDS} fields") from error


def first_of_each(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in fields:
        found.setdefault(name, value)
    return found

"""The logs of eight services of a small shop: access lines, logfmt, JSON, stack traces.

Seeded: the same seed and second give the same lines. Every minute the payment gateway has a bad quarter
(`:25` to `:40`): payments time out, checkouts fail, everything else goes on.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SECOND_NS = 1_000_000_000
BURST = range(25, 40)
ITEMS = ("mug-blue", "mug-red", "lamp-oak", "chair-42", "desk-xl", "rug-wool", "vase-01", "clock-brass")
CITIES = ("Oslo", "Turin", "Lyon", "Gdansk", "Porto", "Graz", "Malmö", "Leuven")
PAGES = ("/", "/search?q=lamp", "/item/{item}", "/cart", "/checkout", "/account/orders")
TRACE = 'Traceback (most recent call last):\n  File "gateway.py", line 88, in charge\nTimeoutError: no answer'


@dataclass(frozen=True, slots=True)
class Line:
    service: str
    time_ns: int
    severity: str
    body: str
    trace_id: bytes
    span_id: bytes
    attributes: tuple[tuple[str, str | int | float], ...]
    caller: bytes = b""
    """Id of the span that waits for this work; empty: a user does."""
    took_ns: int = 0
    """Duration with that of the calls; 0: what the line says."""


def seconds_of(line: Line) -> float:
    """Return the duration of the work behind a line: its own, else one derived from its ids."""
    said = dict(line.attributes)
    for name in ("wait_ms", "took_ms"):
        if name in said:
            return float(said[name]) / 1000
    return 0.002 + line.span_id[0] / 1000


Draft = tuple[str, str, dict[str, str | int | float]]
"""Severity, message and attributes of a line."""


def lines_of_second(seed: int, second: int) -> list[Line]:
    """Return the lines of the whole shop in one second, in time order."""
    chance = random.Random(f"{seed}:{second}")  # noqa: S311 - a shop, not a secret
    burst = second % 60 in BURST
    lines = [
        _line(service, chance, second, write(chance, burst))
        for service, (rate, write) in SERVICES.items()
        for _ in range(_count(chance, rate))
    ]
    return sorted(lines, key=lambda line: line.time_ns)


def _line(service: str, chance: random.Random, second: int, draft: Draft) -> Line:
    severity, body, attributes = draft
    moment = second * SECOND_NS + chance.randrange(SECOND_NS)
    trace, span = chance.randbytes(16), chance.randbytes(8)
    return Line(service, moment, severity, body, trace, span, tuple(attributes.items()))


def _count(chance: random.Random, rate: int) -> int:
    return max(1, round(chance.gauss(rate, rate / 4)))


def _frontend(chance: random.Random, burst: bool) -> Draft:
    page = chance.choice(PAGES).format(item=chance.choice(ITEMS))
    status = 502 if burst and page == "/checkout" else chance.choice((200, 200, 200, 200, 304, 404))
    address = f"10.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(256)}"
    body = f'{address} "GET {page} HTTP/1.1" {status} {chance.randrange(200, 90_000)} {chance.random():.3f}'
    severity = "ERROR" if status >= 500 else "INFO"
    return severity, body, {"http.status_code": status, "http.route": page.split("?")[0]}


def _cart(chance: random.Random, burst: bool) -> Draft:  # noqa: ARG001 - one signature for all services
    verb = chance.choice(("added", "removed", "changed quantity of"))
    user, item = chance.randrange(5000), chance.choice(ITEMS)
    return (
        "INFO",
        f"user={user} {verb} item={item} qty={chance.randrange(1, 5)}",
        {"user.id": user, "item": item},
    )


def _checkout(chance: random.Random, burst: bool) -> Draft:
    order, total = chance.randrange(10**6), chance.randrange(500, 90_000) / 100
    if burst and chance.random() < 0.6:
        return "ERROR", f"order {order} failed: payment service did not answer in 3000ms", {"order.id": order}
    return "INFO", f"order {order} placed, total {total:.2f} EUR", {"order.id": order, "order.total": total}


def _payment(chance: random.Random, burst: bool) -> Draft:
    order, wait = chance.randrange(10**6), chance.randrange(40, 400)
    if burst and chance.random() < 0.7:
        return (
            "ERROR",
            f"gateway timeout after 3000ms for order {order}\n{TRACE}",
            {"order.id": order, "wait_ms": 3000},
        )
    if chance.random() < 0.05:
        return (
            "WARN",
            f"card declined for order {order}: insufficient funds",
            {"order.id": order, "wait_ms": wait},
        )
    return "INFO", f"charged order {order} in {wait}ms", {"order.id": order, "wait_ms": wait}


def _catalog(chance: random.Random, burst: bool) -> Draft:  # noqa: ARG001 - one signature for all services
    took = chance.randrange(1, 60)
    fields = {"msg": "query", "table": "items", "rows": chance.randrange(100), "took_ms": took}
    return (
        ("DEBUG" if took < 50 else "WARN"),
        json.dumps(fields),
        {"db.system": "postgresql", "took_ms": took},
    )


def _shipping(chance: random.Random, burst: bool) -> Draft:  # noqa: ARG001 - one signature for all services
    parcel, city = f"PX{chance.randrange(10**8):08d}", chance.choice(CITIES)
    return (
        "INFO",
        f'parcel="{parcel}" city="{city}" carrier=post eta_days={chance.randrange(1, 6)}',
        {"city": city},
    )


def _email(chance: random.Random, burst: bool) -> Draft:  # noqa: ARG001 - one signature for all services
    name = chance.choice(("order_confirmation", "parcel_sent", "password_reset"))
    return "INFO", f"sent template={name} to user{chance.randrange(5000)}@example.com", {"template": name}


def _inventory(chance: random.Random, burst: bool) -> Draft:  # noqa: ARG001 - one signature for all services
    item, left = chance.choice(ITEMS), chance.randrange(200)
    if left < 8:
        return "WARN", f"low stock: {item} has {left} left", {"item": item, "stock": left}
    return "DEBUG", f"reserved 1 of {item}, {left} left", {"item": item, "stock": left}


SERVICES: dict[str, tuple[int, Callable[[random.Random, bool], Draft]]] = {
    "frontend": (60, _frontend),
    "cart": (20, _cart),
    "checkout": (8, _checkout),
    "payment": (8, _payment),
    "catalog": (40, _catalog),
    "shipping": (4, _shipping),
    "email": (4, _email),
    "inventory": (12, _inventory),
}


def by_service(lines: list[Line]) -> Iterator[tuple[str, list[Line]]]:
    for service in SERVICES:
        yield service, [line for line in lines if line.service == service]

"""Client and server spans are paired into edges of the service graph.

    trace  span  parent  kind      service            client    server    connection_type
    t      c1    r       client    shop               shop      cart
    t      s1    c1      server    cart               cart      redis     database
    t      c2    s1      client    cart  db.system=redis
    t      r             server    shop               user      shop      virtual_node

An edge belongs to the time of its server span, or of its client span where there is no other. A client span
without a server span asks a database, a queue or a peer if its attributes name one; a server span without a
client span was asked by a queue, or by the user if it is a root. All others are unpaired: the other end is
missing, perhaps late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_assets.materialized.spans import (
    CLIENT,
    CONSUMER,
    ERROR,
    NONE,
    PRODUCER,
    SERVER,
    Spans,
    Texts,
    Words,
)
from resources.arrays import Flags, Int64s

CONNECTIONS = ("", "messaging_system", "database", "virtual_node")
DIRECT, MESSAGING, DATABASE, VIRTUAL = range(4)
USER = "user"
"""Client of the roots of traces."""
_KEY = pa.binary(24)


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges of one slice; `NONE` is the service of a missing end."""

    client: Int64s
    server: Int64s
    connection: Int64s
    """Place in `CONNECTIONS`."""
    failed: Flags
    client_ns: Int64s
    """Duration as the client saw it, `NONE` without a client span."""
    server_ns: Int64s
    """Duration at the server, of one without spans as its client saw it."""
    start_ns: Int64s
    trace: Words
    span: Words

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def is_paired(self) -> Flags:
        found: Flags = (self.client != NONE) & (self.server != NONE)
        return found

    def take(self, rows: Int64s | Flags) -> Edges:
        return Edges(*(getattr(self, name)[rows] for name in Edges.__slots__))


def without_repeats(spans: Spans) -> Spans:
    """Keep the first of spans with one trace, id, kind and start: senders may repeat what they sent."""
    known = np.flatnonzero(_have_id(spans, spans.span))
    codes = _codes(spans.trace[known], spans.span[known])
    several = np.bincount(codes)[codes] > 1 if len(codes) else np.zeros(0, np.bool_)
    rows, codes = known[several], codes[several]
    if not len(rows):
        return spans
    order = np.lexsort((spans.start_ns[rows], spans.kind[rows], codes))
    rows, codes = rows[order], codes[order]
    same = (
        (codes[1:] == codes[:-1])
        & (spans.kind[rows][1:] == spans.kind[rows][:-1])
        & (spans.start_ns[rows][1:] == spans.start_ns[rows][:-1])
    )
    keep = np.ones(len(spans), np.bool_)
    keep[rows[1:][same]] = False
    return spans.take(keep)


def edges_of(spans: Spans, texts: Texts) -> Edges:
    """Return the edges and unpaired ends that belong to the hour."""
    callers = np.flatnonzero((spans.kind == CLIENT) | (spans.kind == PRODUCER))
    callees = np.flatnonzero((spans.kind == SERVER) | (spans.kind == CONSUMER))
    parent, is_answered = _pair(spans, callers, callees)
    own, lone = spans.is_own[callees], spans.is_own[callers] & ~is_answered
    paired = own & (parent != NONE)
    parts = (
        _paired(spans, parent[paired], callees[paired]),
        _lone_callees(spans, callees[own & ~paired], texts.code(USER)),
        _lone_callers(spans, callers[lone]),
    )
    return Edges(*(np.concatenate([getattr(p, name) for p in parts]) for name in Edges.__slots__))


def _pair(spans: Spans, callers: Int64s, callees: Int64s) -> tuple[Int64s, Flags]:
    """Return the row of each callee's caller, and which callers have a callee."""
    codes = _codes(
        np.concatenate([spans.trace[callers], spans.trace[callees]]),
        np.concatenate([spans.span[callers], spans.parent[callees]]),
    )
    asks, answers = codes[: len(callers)], codes[len(callers) :]
    named = _have_id(spans, spans.span)[callers]
    count = len(codes) + 1
    row = np.full(count, NONE)
    row[asks[named][::-1]] = callers[named][::-1]  # of several the first
    answered = np.zeros(count, np.bool_)
    has_parent = _have_id(spans, spans.parent)[callees]
    answered[answers[has_parent]] = True
    return np.where(has_parent, row[answers], NONE), answered[asks] & named


def _paired(spans: Spans, client: Int64s, server: Int64s) -> Edges:
    queued = (spans.kind[client] == PRODUCER) | (spans.kind[server] == CONSUMER)
    return Edges(
        spans.service[client],
        spans.service[server],
        np.where(queued, MESSAGING, DIRECT),
        (spans.status[client] == ERROR) | (spans.status[server] == ERROR),
        spans.duration_ns[client],
        spans.duration_ns[server],
        spans.start_ns[server],
        spans.trace[server],
        spans.span[server],
    )


def _lone_callees(spans: Spans, rows: Int64s, user: int) -> Edges:
    consumes, is_root = spans.kind[rows] == CONSUMER, spans.parent[rows] == 0
    from_queue = consumes & (spans.queue[rows] != NONE)
    return Edges(
        np.where(from_queue, spans.queue[rows], np.where(is_root, user, NONE)),
        spans.service[rows],
        np.where(consumes & (from_queue | ~is_root), MESSAGING, np.where(is_root, VIRTUAL, DIRECT)),
        spans.status[rows] == ERROR,
        np.full(len(rows), NONE),
        spans.duration_ns[rows],
        spans.start_ns[rows],
        spans.trace[rows],
        spans.span[rows],
    )


def _lone_callers(spans: Spans, rows: Int64s) -> Edges:
    produces = spans.kind[rows] == PRODUCER
    asks_database = spans.database[rows] != NONE
    to_queue = produces & (spans.queue[rows] != NONE)
    peer = spans.peer[rows]
    server = np.select([asks_database, to_queue], [spans.database[rows], spans.queue[rows]], peer)
    connection = np.select(
        [asks_database, to_queue, peer != NONE, produces], [DATABASE, MESSAGING, VIRTUAL, MESSAGING], DIRECT
    )
    duration = spans.duration_ns[rows]
    return Edges(
        spans.service[rows],
        server,
        connection,
        spans.status[rows] == ERROR,
        duration,
        duration,
        spans.start_ns[rows],
        spans.trace[rows],
        spans.span[rows],
    )


def _have_id(spans: Spans, ids: Words) -> Flags:
    found: Flags = spans.trace.any(axis=1) & (ids != 0)
    return found


def _codes(trace: Words, span: Words) -> Int64s:
    """Return a code for each pair of trace and span, equal for equal pairs."""
    keys = np.ascontiguousarray(np.column_stack([trace, span]))
    array = pa.FixedSizeBinaryArray.from_buffers(_KEY, len(keys), [None, pa.py_buffer(keys)])
    codes: Int64s = array.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes

"""Notifications leave the outbox: each receiver has a courier of its own, so that none waits for another.

A notice is deleted once its receiver took it. A process that is killed while it sends leaves a claim behind
that ends; another one sends again: a receiver may hear something twice, and misses nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
from anyio import to_thread

from lakerunner_query.ruler.notices import Receiver, ReceiverKind, alertmanager_request, webhook_request
from resources.exposition import series
from resources.index.postgres import IndexUnavailableError
from resources.index.ruling_contract import RulerIndex
from resources.index.ruling_types import StoredNotice

BATCH = 256
SEND_S = 8.0
CLAIM_S = 10.0
"""Seconds after which somebody else may send; more than one attempt takes."""
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0
LOOK_S = 1.0
REFUSED = frozenset({400, 413, 415, 422})
"""Statuses that say that no repetition helps."""
TENANT = "X-Scope-OrgID"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Courier:
    """Sends to one receiver, one batch at a time, in order."""

    receiver: Receiver
    index: RulerIndex
    http: httpx.AsyncClient
    counts: Counter[str] = field(default_factory=Counter)
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be something to send."""

    async def run(self) -> None:
        """Send for ever; what is due is looked for often, since other processes leave notices, too."""
        while True:
            try:
                if await self.send_some():
                    continue
            except IndexUnavailableError as error:
                _log.warning("notices wait: the index does not answer: %s", error)
            self.awake.clear()
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.awake.wait()
            except TimeoutError:
                continue

    async def send_some(self) -> int:
        """Send the oldest batch; return how many notices it took out of the outbox."""
        claimed = await to_thread.run_sync(self.index.claim_notices, self.receiver.name, BATCH, CLAIM_S)
        if not claimed:
            return 0
        first = next(list(each) for _, each in groupby(claimed, key=lambda one: one.org))
        rest = claimed[len(first) :]
        error, is_refused = await self._post(first[0].org, first)
        if error and not is_refused:
            self._count("failed", len(first))
            rest_s = min(LONGEST_REST_S, FIRST_REST_S * 2.0 ** (first[0].attempts - 1))
            _log.warning("%s takes nothing, next attempt in %g s: %s", self.receiver.shown, rest_s, error)
            await to_thread.run_sync(self.index.put_off_notices, claimed, error, rest_s)
            return 0
        if is_refused:
            self._count("refused", len(first))
            _log.error("%s refuses %d notices, which are dropped: %s", self.receiver.shown, len(first), error)
        else:
            self._count("sent", len(first))
        await to_thread.run_sync(self.index.finish_notices, first)
        if rest:
            await to_thread.run_sync(self.index.put_off_notices, rest, "", 0.0)
        return len(first)

    async def _post(self, org: str, notices: Sequence[StoredNotice]) -> tuple[str, bool]:
        """Return the reason why it was not taken (empty: it was), and whether it never will be."""
        bodies = [one.body for one in notices]
        is_webhook = self.receiver.kind is ReceiverKind.WEBHOOK
        content = webhook_request(org, bodies) if is_webhook else alertmanager_request(bodies)
        url, credentials = _without_credentials(self.receiver.url)
        headers = {"Content-Type": "application/json", TENANT: org, **credentials}
        try:
            async with asyncio.timeout(SEND_S):
                reply = await self.http.post(url, content=content, headers=headers)
        except TimeoutError:
            return f"no answer within {SEND_S:g} s", False
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"{type(error).__name__}: {error}", False
        if reply.is_success:
            return "", False
        return f"{reply.status_code} {reply.text[:200]}", reply.status_code in REFUSED

    def _count(self, outcome: str, number: int) -> None:
        name = series("lakerunner_ruler_notices_total", receiver=self.receiver.shown, outcome=outcome)
        self.counts[name] += number


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of an address, and put them into a header.

    >>> _without_credentials("http://a:b@host:9093/api")
    ('http://host:9093/api', {'Authorization': 'Basic YTpi'})
    """
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    host = parts.netloc.rpartition("@")[2]
    token = base64.b64encode(pair.encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {token}"}

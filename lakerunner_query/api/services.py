"""What the handlers of one API process share, built once by `app.py`."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.api.metrics import Counters
from lakerunner_query.engine import Engine, Finished
from lakerunner_query.execute.dispatch import Dispatcher
from lakerunner_query.execute.locate import Locator
from resources.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    locator: Locator
    dispatcher: Dispatcher
    engine: Engine
    counters: Counters

    def count_query(self, api: str, answer: Finished) -> None:
        """One finished query, for `/metrics`."""
        status = "partial" if answer.partial else "complete"
        self.counters.add(f'lakerunner_queries_total{{api="{api}",status="{status}"}}')
        self.counters.add(f'lakerunner_query_rows_total{{api="{api}"}}', answer.collected.rows)

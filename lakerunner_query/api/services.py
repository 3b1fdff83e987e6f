"""What the handlers of one API process share, built once by `app.py`."""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_query.api.metrics import Counters
from lakerunner_query.engine import Engine
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

"""`/api/v1/query` over any LakeQL, on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn
from litestar import Litestar
from litestar.di import Provide

from lakerunner_query.api.lakerunner.queries import lakeql_router
from lakerunner_query.api.shared.services import Services, provide_services
from lakerunner_query.serving import Counters
from resources.settings import Settings
from tests.support.query.fake_lakeql import FakeLakeQL
from tests.support.query.flight_door import Keys
from tests.support.query.lake import free_port


@contextmanager
def http_lakeql(lakeql: FakeLakeQL) -> Iterator[str]:
    """Serve it; yield the address."""
    nothing = cast("Any", None)
    services = Services(
        settings=Settings(internal_token="internal"),
        locator=cast("Any", Keys()),
        dispatcher=nothing,
        engine=nothing,
        lakeql=cast("Any", lakeql),
        counters=Counters(),
    )
    provided = Provide(provide_services, sync_to_thread=False)
    app = Litestar(route_handlers=[lakeql_router], dependencies={"services": provided})
    app.state.services = services
    port = free_port()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()

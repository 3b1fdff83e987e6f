"""The parts of the local stack, in the order of `lakerunner status`.

A part waits for those in its `needs`; all others start at once.
"""

from lakerunner_cli.command import StackError
from lakerunner_cli.stack.component import Component
from lakerunner_cli.stack.components.dagster import CODE_SERVER, DAEMON, WEBSERVER
from lakerunner_cli.stack.components.kafka import KAFKA
from lakerunner_cli.stack.components.postgres import POSTGRES
from lakerunner_cli.stack.components.roles import (
    INGRESS,
    QUERY_API,
    QUERY_JOBS,
    QUERY_WORKER_1,
    QUERY_WORKER_2,
    RULER,
    SHOP,
    WATCHDOG,
)
from lakerunner_cli.stack.components.spark import SPARK

COMPONENTS: tuple[Component, ...] = (
    POSTGRES,
    KAFKA,
    SPARK,
    CODE_SERVER,
    DAEMON,
    WEBSERVER,
    INGRESS,
    QUERY_WORKER_1,
    QUERY_WORKER_2,
    QUERY_API,
    QUERY_JOBS,
    RULER,
    WATCHDOG,
)


OPTIONAL: tuple[Component, ...] = (SHOP,)
"""Parts that run beside the others while something in the data directory wants them."""


def select(names: tuple[str, ...]) -> tuple[Component, ...]:
    """Select components and everything they need; no names means all of them."""
    known = {component.name: component for component in COMPONENTS}
    wanted: set[str] = set()
    open_names = list(names or known)
    while open_names:
        name = open_names.pop()
        if name not in known:
            raise StackError(f"no component {name!r}; there are: {', '.join(known)}")
        if name not in wanted:
            wanted.add(name)
            open_names += known[name].needs
    return tuple(component for component in COMPONENTS if component.name in wanted)

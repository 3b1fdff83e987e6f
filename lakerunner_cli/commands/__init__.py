"""One module per command; each is a `lakerunner_cli.command.Command` by shape.

`COMMANDS` is the whole list, in the order of `lakerunner --help`. Modules import heavy things inside
`run`, because all of them are loaded to build the help text.
"""

COMMANDS = (
    "up",
    "down",
    "status",
    "logs",
    "doctor",
    "demo",
    "ingest",
    "backfill",
    "admin",
    "sweep",
    "migrate",
    "ingress",
    "notifications",
    "query_api",
    "query_worker",
    "watchdog",
)

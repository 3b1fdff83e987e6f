"""The commands: each a module, or a row of `roles.ROLES`, with the shape of `command.Command`.

`COMMANDS` is the whole list, in the order of `lakerunner --help`. Modules import heavy things inside `run`,
because all of them are loaded to build the help text.
"""

COMMANDS = (
    "up",
    "down",
    "status",
    "logs",
    "doctor",
    "demo",
    "query",
    "sql",
    "trace",
    "ingest",
    "rules",
    "tables",
    "sampler",
    "backfill",
    "admin",
    "sweep",
    "migrate",
    "ingress",
    "notifications",
    "query-api",
    "query-worker",
    "query-jobs",
    "ruler",
    "watchdog",
)

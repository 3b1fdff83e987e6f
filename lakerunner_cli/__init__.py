"""The `lakerunner` command and the local stack behind `lakerunner up`.

`main.py` dispatches to the commands in `commands/`; `stack/` supervises the processes of one machine and
knows nothing about telemetry. Roles (query API, worker, ingress, watchdog) are imported only when their
command runs, so that `lakerunner --help` stays instant.
"""

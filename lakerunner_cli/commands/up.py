"""`lakerunner up`: run the whole system on this machine.

In the foreground it supervises until Ctrl-C; with `--detach` the supervisor gets a session of its own and the
command returns when everything is ready. A second `up` on the same data directory changes nothing. A lake
elsewhere is remembered; the stack's own is always below its data directory, wherever that lies now.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from resources.settings import Settings, process_environment

if TYPE_CHECKING:
    from lakerunner_cli.stack.state import StackState

NAME = "up"
HELP = "Start the local stack (PostgreSQL, Kafka, Spark, Dagster, ingress, query API and workers)."


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--detach", action="store_true", help="return when ready; stop with `lakerunner down`"
    )
    parser.add_argument(
        "--only", default="", metavar="NAME,…", help="just these components and what they need"
    )
    parser.add_argument(
        "--lake",
        default="",
        metavar="URL",
        help="where segments are kept: s3://BUCKET/PREFIX, gs://…, az://…",
    )
    parser.add_argument("--detached", action="store_true", help=SUPPRESS)  # what `--detach` starts
    parser.add_argument("--definitions", default="", help=SUPPRESS)  # another Dagster module, for tests


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.stack.paths import StackPaths
    from lakerunner_cli.stack.state import acquire

    lock = acquire(StackPaths(settings.data_dir), patience_s=0.3)
    if lock is None:
        return _already_running(settings)
    settings = replace(settings, lake_url=lake_url(args.lake, settings))
    _check_lake(settings)
    if not args.detach:
        return _foreground(args, settings, lock)
    lock.close()
    return _detach(args, settings)


def lake_url(told: str, settings: Settings) -> str:
    """Return the lake that was asked for now, or before; empty is the stack's own."""
    if told := told or process_environment().get("LAKERUNNER_LAKE_URL", ""):
        return told
    return "" if settings.lake_url.startswith("file:") else settings.lake_url


def _check_lake(settings: Settings) -> None:
    """Refuse a lake that cannot be listed, before anything starts."""
    from lakerunner_cli.command import StackError
    from resources.objects.errors import StoreError
    from resources.objects.store import open_store

    if not settings.lake_url:
        return
    try:
        next(iter(open_store(settings.lake_url, replace(settings, store_max_retries=1)).list("db")), None)
    except StoreError as error:
        raise StackError(f"the lake {settings.lake_url} cannot be read: {error}") from error


def _already_running(settings: Settings) -> int:
    from lakerunner_cli.commands import status

    print(f"a stack is already running on {settings.data_dir}; nothing to do")
    return 0 if status.show(settings, as_json=False) else 1


def _foreground(args: Namespace, settings: Settings, lock: IO[str]) -> int:
    from lakerunner_cli.stack.lifecycle import supervise
    from lakerunner_cli.stack.site import DEFINITIONS
    from lakerunner_cli.stack.supervisor import leave
    from lakerunner_cli.stack.view import table

    def when_ready(state: StackState) -> None:
        if not args.detached:
            print("\n".join(["", *table(state), "", "Ctrl-C stops everything."]), flush=True)

    names = tuple(name for name in args.only.split(",") if name)
    code = supervise(settings, lock, names, when_ready, args.definitions or DEFINITIONS)
    leave(code)
    return code


def _detach(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.stack.lifecycle import detach
    from lakerunner_cli.stack.view import table

    arguments = [f"--only={args.only}", f"--lake={settings.lake_url}"] + (
        [f"--definitions={args.definitions}"] if args.definitions else []
    )
    state = detach(settings, arguments, lambda line: print(line, flush=True))
    print("\n".join(["", *table(state), "", "`lakerunner down` stops everything."]))
    return 0

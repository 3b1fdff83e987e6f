"""`lakerunner ingest PATH…`: put files into the raw bucket and announce them.

The beginning of each file is decoded first: what cooking would refuse is refused here, and what its columns
become is said. Names come from the content, so ingesting the same file twice in an hour adds nothing and says
so. With `--wait` the command ends with a query when every object can be queried (exit code 0) or was given up
on (1).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from resources.settings import Settings

if TYPE_CHECKING:
    from lakerunner_cli.accounts import CommandIndex
    from lakerunner_cli.preview import Looker
    from lakerunner_cli.upload import Destination, UploadedObject

NAME = "ingest"
HELP = "Ingest files: OTLP protobuf or JSON, JSON lines, CSV, Parquet; plain, gz or zst."
CHUNK = 50


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="files or directories")
    parser.add_argument("--org", required=True)
    parser.add_argument("--signal", choices=("logs", "metrics", "traces"), default="logs")
    parser.add_argument("--collector", default="default")
    parser.add_argument("--bucket", default="raw")
    parser.add_argument("--wait", action="store_true", help="return when everything can be queried")
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for --wait")


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.accounts import open_index
    from lakerunner_cli.upload import files_under

    files = files_under(args.paths)
    with open_index(settings) as index:
        to = _destination(index, args, settings)
        good, bad = _look(files, _looker(index, to, settings))
        sent, refused = _send(good, to, settings)
        _report(sent, refused)
        failed = 0
        if args.wait and sent and not refused:
            failed = _wait(index, to, sent, args.timeout, settings)
    return 1 if bad or refused or failed else 0


def _looker(index: CommandIndex, to: Destination, settings: Settings) -> Looker:
    from lakerunner_cli.preview import Looker
    from resources.lake.options import OrgOptions

    options = index.org_options().get(to.org, OrgOptions())
    return Looker(to.org, to.signal, options.decode, settings)


def _look(files: list[Path], looker: Looker) -> tuple[list[Path], int]:
    """Say what becomes of the files; return those that cooking would take, and the number of the others."""
    good: list[Path] = []
    told: dict[str, list[Path]] = {}
    for path in files:
        found = looker.look(path)
        if found.refusal:
            print(f"refused: {path}: {found.refusal}")
            continue
        good.append(path)
        for line in (found.roles, *(f"! {warning}" for warning in found.warnings)):
            if line:
                told.setdefault(line, []).append(path)
    for line, paths in told.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        print(f"{paths[0].name}{more}: {line}")
    return good, len(files) - len(good)


def _destination(index: CommandIndex, args: Namespace, settings: Settings) -> Destination:
    from lakerunner_cli.accounts import bucket_profile
    from lakerunner_cli.command import CommandError
    from lakerunner_cli.upload import Destination
    from resources.lake.layout import Signal, valid_name
    from resources.objects.store import open_store

    if args.org not in index.organisations():
        raise CommandError(f"no enabled organisation {args.org!r}; `lakerunner admin org create {args.org}`")
    if not valid_name(args.collector):
        raise CommandError(f"collector {args.collector!r}: expected lower-case letters, digits, - and _")
    profile = bucket_profile(index, args.bucket, settings)
    store = open_store(profile.url, settings, profile.credentials_ref)
    return Destination(store, args.bucket, args.org, args.collector, Signal(args.signal))


def _send(
    files: list[Path], to: Destination, settings: Settings
) -> tuple[list[UploadedObject], tuple[str, ...]]:
    from lakerunner_cli.progress import Progress
    from lakerunner_cli.upload import upload
    from lakerunner_cli.webhook import notify

    progress = Progress("uploaded", len(files))
    sent: list[UploadedObject] = []
    reasons: tuple[str, ...] = ()
    for start in range(0, len(files), CHUNK):
        chunk = []
        for path in files[start : start + CHUNK]:
            chunk.append(upload(path, to))
            progress.step()
        reasons += notify([each.object for each in chunk], settings).reasons
        sent += chunk
    progress.close()
    return sent, reasons


def _report(sent: list[UploadedObject], refused: tuple[str, ...]) -> None:
    new = [each for each in sent if each.is_new]
    size = sum(each.object.size for each in new)
    print(f"{len(new)} new object(s), {size:,} bytes, announced")
    if len(new) < len(sent):
        print(f"{len(sent) - len(new)} already there with the same content (this hour): nothing was added")
    for reason in refused:
        print(f"refused: {reason}")


def _wait(
    index: CommandIndex, to: Destination, sent: list[UploadedObject], timeout_s: float, settings: Settings
) -> int:
    """Wait, then print a query; return the number of objects that cannot be queried in the end."""
    from lakerunner_cli.preview import query_of
    from lakerunner_cli.progress import Progress, wait_until_settled
    from resources.index.types import ObjectState

    keys = sorted({each.object.key for each in sent})
    print(
        f"waiting up to {timeout_s:.0f} s for a sensor and a cooking run to take {len(keys)} object(s)",
        flush=True,
    )
    progress = Progress("queryable", len(keys))
    statuses = wait_until_settled(
        lambda: index.object_states(to.bucket, keys), len(keys), timeout_s, progress.at
    )
    progress.close()
    failed = [status for status in statuses if status.state is ObjectState.PARKED]
    for status in statuses:
        if status.error:
            what = "parked" if status.state is ObjectState.PARKED else f"{status.rejected} records rejected"
            print(f"{what}: {status.key}: {status.error}")
    print(f"{len(statuses) - len(failed)} queryable, {sum(s.rows for s in statuses):,} rows")
    hours = index.object_hours(to.bucket, keys)
    if hours is not None and (query := query_of(to.signal, hours, settings)):
        print(f"ask for them, with a read key in READ_KEY:\n  {query}")
    return len(failed)

"""`lakerunner query TEXT`: answer one statement in SQL, PromQL, LogQL or TraceQL.

A terminal gets a table and progress on stderr, a pipe gets CSV. Remarks go to stderr always. Exit code 1 says
that segments could not be read: what was printed is a part of the answer.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Self, TextIO

from lakerunner_cli.command import CommandError
from resources.settings import Settings, process_environment

if TYPE_CHECKING:
    from lakerunner_cli.query_client import QueryClient, Question
    from lakerunner_cli.query_output import Screen, Writer

NAME = "query"
HELP = "Ask one question in SQL, PromQL, LogQL or TraceQL; a table on a terminal, CSV elsewhere."
EXAMPLES = """\
examples:
  lakerunner query "SELECT severity, count(*) AS n FROM logs GROUP BY 1 ORDER BY n DESC" --from now-1h
  lakerunner query 'sum by (job) (rate(http_requests_total[5m]))' --plot
  lakerunner query '{service_name="checkout"} |= "refused"' --format json
  lakerunner query --traceql '{ status = error && duration > 1s }' --from now-1h
  lakerunner query --traceql '{} | rate() by (resource.service.name)' --plot
  lakerunner query 'SELECT message FROM logs WHERE service_name = $service' --param service=web
  lakerunner query "SELECT * FROM spans" --from now-15m --format arrow --output spans.arrow
  lakerunner query "SELECT count(*) FROM logs" --watch 5
  lakerunner query --explain "SELECT count(*) FROM logs WHERE service_name = 'web'"
"""
CLEAR = "\033[H\033[2J"


def configure(parser: ArgumentParser) -> None:
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("text", help="the statement; - reads it from stdin")
    parser.add_argument(
        "--format",
        choices=("table", "csv", "json", "arrow"),
        help="json: one object per line; arrow: an Arrow stream, for --output or a pipe",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there, once it is whole")
    parser.add_argument("--plot", action="store_true", help="time series as sparklines, other rows as bars")
    parser.add_argument("--explain", action="store_true", help="show what would be read, and read nothing")
    parser.add_argument("--watch", type=float, default=0.0, metavar="SECONDS", help="ask again and again")
    parser.add_argument(
        "--traceql", action="store_true",
        help="the text is TraceQL (its selectors look like LogQL's): traces, or series of their spans",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=("auto", "local", "spark"), default="auto",
        help="place of joins, groups and sorts; auto: Spark takes over what is too large for the query API",
    )  # fmt: skip
    parser.add_argument("--limit", type=int, default=0, metavar="ROWS", help="at most so many rows")
    parser.add_argument(
        "--param", action="append", metavar="NAME=VALUE", help="value of $NAME in the statement"
    )
    add_source(parser)


def add_source(parser: ArgumentParser) -> None:
    """Add the options that say whom to ask, and about which time."""
    parser.add_argument(
        "--from", dest="start", default="", metavar="TIME",
        help="begin of tables that the statement does not bound: now-1h, 2026-01-01T00:00:00Z, …",
    )  # fmt: skip
    parser.add_argument("--to", dest="end", default="", metavar="TIME", help="their end (default now)")
    parser.add_argument("--url", default="", help="query API (default: the one of the local stack)")
    parser.add_argument("--key", default="", help="API key with the role read (default LAKERUNNER_QUERY_KEY)")


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.query_client import Question, open_client, with_parameters

    _check_forms(args)
    text = sys.stdin.read() if args.text == "-" else args.text
    plain = Question(text, args.start, args.end, args.limit, engine=args.engine, is_traceql=args.traceql)
    question = with_parameters(plain, args.param or ())
    client = open_client(args.url, args.key, settings)
    try:
        with _destination(args) as out:
            if args.explain:
                out.write(client.explain(question))
                return 0
            if args.format == "arrow":
                return _pass_on(client, question, args.output)
            if args.watch > 0:
                return _watch(client, question, args, out)
            return 0 if show(client, question, _writer(args, out), out) else 1
    finally:
        client.close()


def _check_forms(args: Namespace) -> None:
    """Refuse options of which one would be ignored."""
    if args.plot and args.format:
        raise CommandError("--plot is a form of its own: leave out --format")
    if args.explain and (args.plot or args.format or args.watch):
        raise CommandError("--explain answers with text: leave out --format, --plot and --watch")
    if args.traceql and (args.param or args.engine != "auto" or args.format == "arrow"):
        raise CommandError("--traceql has no --param, --engine or Arrow stream: leave them out")
    if args.watch < 0 or (args.watch and (args.output or args.format == "arrow")):
        raise CommandError("--watch shows an answer every so many seconds: leave out --output and arrow")


def show(
    client: QueryClient, question: Question, writer: Writer, out: TextIO, *, timing: bool | None = None
) -> bool:
    """Ask and write; return False for an answer that lacks segments.

    `timing` says whether a line about rows and seconds follows; by default, on a terminal it does.
    """
    from lakerunner_cli.query_client import Column

    began = time.monotonic()
    done: dict[str, object] = {}
    with Meter(sys.stderr, out) as meter:
        for kind, data in client.events(question):
            if kind == "schema":
                writer.begin([Column(one["name"], one["type"]) for one in data])
            elif kind == "result":
                meter.add(len(data["rows"]))
                writer.rows(data["rows"])
            elif kind == "summary":
                meter.stats = data["stats"]
            elif kind == "job":
                meter.take_job(data)
            elif kind == "notice":
                meter.say(f"note: {data}")
            elif kind == "done":
                done = data
        writer.end()
        out.flush()
        warnings = done.get("warnings")
        for text in warnings if isinstance(warnings, list) else []:
            meter.say(f"warning: {text}")
        if timing if timing is not None else sys.stderr.isatty():
            meter.say(_summary(done, time.monotonic() - began))
    return done.get("status") == "complete"


def _summary(done: dict[str, object], seconds: float) -> str:
    """
    >>> _summary({"rows": 2, "stats": {"segments": 3, "segments_opened": 3, "bytes_fetched": 2048}}, 0.5)
    '2 rows in 0.50 s; 3 of 3 segments opened, 2.0 kB fetched'
    """
    stats = done.get("stats")
    return f"{done.get('rows', 0)} rows in {seconds:.2f} s; {_read(stats if isinstance(stats, dict) else {})}"


def _read(stats: dict[str, int]) -> str:
    opened, fetched = stats.get("segments_opened", 0), size(stats.get("bytes_fetched", 0))
    return f"{opened} of {stats.get('segments', opened)} segments opened, {fetched} fetched"


def _tasks(job: dict[str, Any]) -> str:
    """
    >>> _tasks({"state": "running", "progress": {"stages": 3, "stages_done": 1, "tasks": 8, "tasks_done": 5}})
    'Spark is running: 5 of 8 tasks, 1 of 3 stages'
    """
    progress = {name: int(count) for name, count in job["progress"].items()}
    if not progress:
        return f"Spark is {job['state']}"
    return (
        f"Spark is {job['state']}: {progress['tasks_done']} of {progress['tasks']} tasks, "
        f"{progress['stages_done']} of {progress['stages']} stages"
    )


def size(count: float) -> str:
    """
    >>> size(500), size(2048), size(5_000_000_000)
    ('500 B', '2.0 kB', '5.0 GB')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


class Meter:
    """Progress of one statement in the last line of a terminal; elsewhere only remarks are written."""

    def __init__(self, stream: TextIO, out: TextIO) -> None:
        from threading import Event, Thread

        self._stream = stream
        self._shares_terminal = out.isatty()
        self.stats: dict[str, int] = {}
        """Counts of the work so far, as the server tells them."""
        self.on_spark = ""
        """State of the statement on Spark; empty: it is not there."""
        self._rows = 0
        self._began = time.monotonic()
        self._is_over = Event()
        self._ticking = Thread(target=self._tick, daemon=True) if stream.isatty() else None

    def __enter__(self) -> Self:
        if self._ticking is not None:
            self._ticking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add(self, rows: int) -> None:
        self._rows += rows
        if self._shares_terminal:
            self.stop()

    def take_job(self, job: dict[str, Any]) -> None:
        """Show what Spark does; its id is said once."""
        if not self.on_spark:
            self._stream.write(f"\ron Spark as query {job['id']}\n")
            self._stream.flush()
        self.on_spark = _tasks(job)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.stop()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def stop(self) -> None:
        """Remove the progress."""
        self._is_over.set()
        if self._ticking is not None:
            self._ticking.join()
            self._ticking = None

    def _tick(self) -> None:
        drawn = False
        while not self._is_over.wait(0.5):
            drawn = True
            read = f", {self.on_spark}" if self.on_spark else f", {_read(self.stats)}" if self.stats else ""
            self._stream.write(f"\r{time.monotonic() - self._began:.0f} s, {self._rows:,} rows{read}\033[K")
            self._stream.flush()
        if drawn:
            self._stream.write("\r\033[K")
            self._stream.flush()


def screen_of(out: TextIO) -> Screen:
    """Return the width of a terminal, and colour unless NO_COLOR is set."""
    from lakerunner_cli.query_output import Screen

    if not out.isatty():
        return Screen(out)
    environment = process_environment()
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
    return Screen(out, get_terminal_size().columns, colour=not plain)


def _writer(args: Namespace, out: TextIO, screen: Screen | None = None) -> Writer:
    from lakerunner_cli.query_output import FORMS, PlotWriter

    screen = screen or screen_of(out)
    if args.plot:
        return PlotWriter(screen)
    return FORMS[args.format or ("table" if screen.width else "csv")](screen)


@contextmanager
def _destination(args: Namespace) -> Iterator[TextIO]:
    """Open the file beside its place, and move it there when it is whole."""
    if args.output is None or args.format == "arrow":
        yield sys.stdout
        return
    aside = args.output.with_name(args.output.name + ".part")
    try:
        with aside.open("w", encoding="utf-8", newline="") as out:
            yield out
        aside.replace(args.output)
    finally:
        aside.unlink(missing_ok=True)


def _pass_on(client: QueryClient, question: Question, output: Path | None) -> int:
    """Write an Arrow stream as it comes."""
    if output is None:
        if sys.stdout.isatty():
            raise CommandError("an Arrow stream is not for a terminal: give --output FILE, or a pipe")
        for piece in client.arrow(question):
            sys.stdout.buffer.write(piece)
        return 0
    aside = output.with_name(output.name + ".part")
    try:
        with aside.open("wb") as out:
            for piece in client.arrow(question):
                out.write(piece)
        aside.replace(output)
    finally:
        aside.unlink(missing_ok=True)
    return 0


def _watch(client: QueryClient, question: Question, args: Namespace, out: TextIO) -> int:
    """Show the answer again and again, each one at once; Ctrl-C ends it."""
    screen = screen_of(out)
    while True:
        page = StringIO()
        shown = type(screen)(page, screen.width, screen.colour)
        show(client, question, _writer(args, page, shown), page, timing=False)
        head = f"every {args.watch:g} s, {time.strftime('%H:%M:%S')}"
        out.write((CLEAR if out.isatty() else "") + f"{screen.dim(head)}\n{page.getvalue()}")
        out.flush()
        time.sleep(args.watch)

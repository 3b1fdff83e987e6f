"""`lakerunner sql`: statements from a prompt, with history and completion.

A statement ends at `;`. Ctrl-C cancels the one that runs, or drops the one that is being typed; Ctrl-D ends
the shell. From a pipe, statements are answered in turn, and the first that fails ends the command.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from lakerunner_cli.command import CommandError
from lakerunner_cli.commands.query import add_source, screen_of, show
from resources.settings import Settings

if TYPE_CHECKING:
    from lakerunner_cli.query_client import QueryClient
    from lakerunner_cli.query_output import Writer

NAME = "sql"
HELP = "Ask statement after statement in SQL, PromQL or LogQL, each ended by a semicolon."
EXAMPLES = """\
examples:
  lakerunner sql
  lakerunner sql --from now-6h
  echo 'SHOW TABLES;' | lakerunner sql --format table
"""
PROMPT, MORE = "lake> ", "   -> "
HISTORY = ".lakerunner_sql_history"
MAX_HISTORY = 5000
WATCH_S = 2.0
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "WITH", "AS", "AND", "OR", "NOT",
    "IN", "LIKE", "ILIKE", "BETWEEN", "IS NULL", "JOIN", "LEFT JOIN", "ON", "USING", "UNION ALL", "EXCEPT",
    "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "INTERVAL", "TIMESTAMP", "OVER", "PARTITION BY",
    "EXPLAIN", "DESCRIBE", "SHOW TABLES", "VALUES", "DESC", "ASC", "NULLS LAST", "QUALIFY",
)  # fmt: skip
COLUMNS = "SELECT DISTINCT table_name, column_name FROM information_schema.columns"


def configure(parser: ArgumentParser) -> None:
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = f"{EXAMPLES}\nat the prompt:\n{HELP_TEXT}"
    parser.add_argument("--format", choices=("table", "csv", "json"), help="table on a terminal, else csv")
    add_source(parser)


def run(args: Namespace, settings: Settings) -> int:
    from lakerunner_cli.query_client import open_client

    client = open_client(args.url, args.key, settings)
    shell = Shell(client, args, sys.stdout, is_interactive=sys.stdin.isatty())
    try:
        if not shell.is_interactive:
            return shell.loop(_line_of_stdin)
        print('SQL, PromQL or LogQL, each ended by ";"; \\? for help, \\q or Ctrl-D to leave')
        with_readline(Names(client), Path.home() / HISTORY)
        return shell.loop(input)
    finally:
        client.close()


def _line_of_stdin(_: str) -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def split_statements(text: str) -> tuple[list[str], str]:
    r"""Cut a text at its semicolons outside of quotes and comments; the rest is still being typed.

    >>> split_statements("SELECT ';' -- a;\n; SELECT 2; SEL")
    (["SELECT ';' -- a;", 'SELECT 2'], ' SEL')
    """
    found, start, at = [], 0, 0
    while at < len(text):
        end = _end_of_quoted(text, at)
        if end:
            at = end
            continue
        if text[at] == ";":
            found.append(text[start:at].strip())
            start = at + 1
        at += 1
    return [one for one in found if one], text[start:] if text[start:].strip() else ""


def _end_of_quoted(text: str, at: int) -> int:
    """Return where a quoted part or a comment that begins here ends; 0: none begins here."""
    if text.startswith("--", at):
        return text.find("\n", at) + 1 or len(text)
    if text.startswith("/*", at):
        return text.find("*/", at) + 2 if "*/" in text[at:] else len(text)
    quote = text[at]
    if quote not in "'\"`":
        return 0
    end = at + 1
    while end < len(text) and text[end] != quote:
        end += 2 if text[end] == "\\" and quote == '"' else 1
    return min(end + 1, len(text))


@dataclass(slots=True)
class Shell:
    """One session: its switches and its last statement."""

    client: QueryClient
    args: Namespace
    out: TextIO
    is_interactive: bool
    timing: bool = False
    records: bool = False
    plot: bool = False
    last: str = ""
    is_over: bool = False
    failures: int = 0

    def loop(self, read: Callable[[str], str]) -> int:
        """Read lines until the end; return the exit code."""
        typed = ""
        while not self.is_over:
            try:
                line = read(MORE if typed else PROMPT)
            except EOFError:
                break
            except KeyboardInterrupt:
                self._print("")
                typed = ""
                continue
            statements, typed = split_statements(f"{typed}{line}\n")
            for statement in statements:
                self._guarded(partial(self._take, statement))
            if typed.lstrip().startswith("\\"):
                command, typed = typed.strip(), ""
                self._guarded(partial(self._take, command))
        self._guarded(partial(self._take, typed.strip()))
        return 2 if self.failures and not self.is_interactive else 0

    def _take(self, text: str) -> None:
        """Do a command, or ask a statement; after the end nothing is done."""
        if text and not self.is_over:
            self.obey(text) if text.startswith("\\") else self.ask(text)

    def ask(self, text: str) -> None:
        from lakerunner_cli.query_client import Question

        self.last = text
        question = Question(text, self.args.start, self.args.end)
        timing = self.timing if self.is_interactive else False
        if not show(self.client, question, self._writer(), self.out, timing=timing):
            self.failures += 1

    def obey(self, line: str) -> None:
        """Do what a line with a backslash says."""
        name, _, argument = line.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise CommandError(f"no command {name}; \\? lists them")
        command.do(self, argument.strip().removesuffix(";"))

    def describe(self, table: str) -> None:
        self.ask(f"DESCRIBE {table}" if table else "SHOW TABLES")

    def switch_records(self, _: str) -> None:
        self.records = not self.records
        self._print(f"values are shown {'one per line' if self.records else 'in a table'}")

    def switch_timing(self, _: str) -> None:
        self.timing = not self.timing
        self._print(f"timing is {'on' if self.timing else 'off'}")

    def switch_plot(self, _: str) -> None:
        self.plot = not self.plot
        self._print(f"answers are {'drawn' if self.plot else 'listed'}")

    def watch(self, seconds: str) -> None:
        """Ask the last statement again and again, until Ctrl-C."""
        if not self.last:
            raise CommandError("\\watch repeats the last statement; there is none yet")
        every = float(seconds) if seconds.replace(".", "", 1).isdigit() else WATCH_S
        while True:
            self._print(f"every {every:g} s, {time.strftime('%H:%M:%S')}")
            self.ask(self.last)
            time.sleep(every)

    def leave(self, _: str) -> None:
        self.is_over = True

    def help(self, _: str) -> None:
        self._print(HELP_TEXT)

    def _guarded(self, act: Callable[[], None]) -> None:
        """Let a statement fail, or be cancelled, without ending an interactive shell."""
        try:
            act()
        except KeyboardInterrupt:
            self._print("\ncancelled")
        except CommandError as error:
            self.failures += 1
            print(f"error: {error}", file=sys.stderr)
            self.is_over = self.is_over or not self.is_interactive

    def _writer(self) -> Writer:
        from lakerunner_cli.query_output import FORMS, PlotWriter, RecordWriter

        screen = screen_of(self.out)
        if self.plot:
            return PlotWriter(screen)
        if self.records:
            return RecordWriter(screen)
        return FORMS[self.args.format or ("table" if self.is_interactive else "csv")](screen)

    def _print(self, text: str) -> None:
        self.out.write(f"{text}\n")
        self.out.flush()


@dataclass(frozen=True, slots=True)
class _Act:
    do: Callable[[Shell, str], None]
    meaning: str


COMMANDS: Mapping[str, _Act] = {
    "\\d": _Act(Shell.describe, "tables; with a name, the columns of that table"),
    "\\dt": _Act(lambda shell, _: shell.describe(""), "tables"),
    "\\x": _Act(Shell.switch_records, "one value per line, or a table again"),
    "\\plot": _Act(Shell.switch_plot, "sparklines and bars, or rows again"),
    "\\timing": _Act(Shell.switch_timing, "seconds, segments and bytes below each answer, or not"),
    "\\watch": _Act(Shell.watch, f"the last statement every so many seconds ({WATCH_S:g})"),
    "\\?": _Act(Shell.help, "this list"),
    "\\q": _Act(Shell.leave, "the end"),
}
HELP_TEXT = "\n".join(f"  {name:<9} {act.meaning}" for name, act in COMMANDS.items())


@dataclass(slots=True)
class Names:
    """Names that Tab completes: tables and columns as the server has them, functions, key words."""

    client: QueryClient
    _known: list[str] | None = None
    _matches: list[str] = field(default_factory=list)

    def complete(self, typed: str, number: int) -> str | None:
        if number == 0:
            self._matches = self.matches(typed)
        return self._matches[number] if number < len(self._matches) else None

    def matches(self, typed: str) -> list[str]:
        if self._known is None:
            self._known = sorted({*self._of_server(), *functions(), *KEYWORDS, *COMMANDS})
        wanted = typed.casefold()
        return [name for name in self._known if name.casefold().startswith(wanted)]

    def _of_server(self) -> Iterator[str]:
        from lakerunner_cli.query_client import Question

        try:
            for kind, data in self.client.events(Question(COLUMNS)):
                for row in data["rows"] if kind == "result" else ():
                    yield from (name if name.isidentifier() else f'"{name}"' for name in row)
        except CommandError as error:
            print(f"\nnames of tables are not known: {error}", file=sys.stderr)


def functions() -> list[str]:
    """Return the functions of the language, each with its parenthesis."""
    from lakerunner_query.lakeql.whitelist import FUNCTIONS, LANGUAGE_FUNCTIONS, MACROS, ROW_FUNCTIONS

    return [f"{name}(" for name in FUNCTIONS | LANGUAGE_FUNCTIONS | MACROS | ROW_FUNCTIONS]


def with_readline(names: Names, history: Path) -> None:
    """Switch on editing, completion and a history that only its owner can read."""
    import atexit
    import readline

    os.close(os.open(history, os.O_WRONLY | os.O_CREAT, 0o600))
    history.chmod(0o600)
    readline.read_history_file(history)
    readline.set_history_length(MAX_HISTORY)
    atexit.register(readline.write_history_file, history)
    readline.set_completer(names.complete)
    readline.set_completer_delims(" \t\n,()=<>+-*/;'")
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

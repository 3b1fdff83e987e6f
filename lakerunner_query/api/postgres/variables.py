"""Variables of a session: what `SET`, `SHOW` and `RESET` take, and the options of a connection.

A variable is honoured, or it is harmless here and only remembered, or it is refused: nothing that would
change an answer is passed over in silence. Statements are told apart by their first word.

>>> [(one.text, one.word) for one in split("BEGIN; SELECT ';' -- a;b")]
[('BEGIN', 'begin'), ("SELECT ';' -- a;b", 'select')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from lakerunner_query.api.postgres.messages import READ_ONLY, SqlError, parameter_status
from lakerunner_query.lakeql.statement import is_sql
from lakerunner_query.plan.lakeql import Engine

SERVER_VERSION = "15.0 (Lakerunner)"
"""Whose catalogs, functions and errors clients find here."""
PARTIAL_RESPONSE, ENGINE = "lakerunner.partial_response", "engine"
WRITES = frozenset({
    "insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "grant", "revoke",
    "comment", "vacuum", "analyze", "reindex", "cluster", "refresh", "import", "security", "reassign",
    "call", "do", "lock", "checkpoint",
})  # fmt: skip
_UNITS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TOKEN = re.compile(
    r"(?P<quoted>[eE]'(?:[^'\\]|''|\\.)*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`)"
    r"|(?P<comment>--[^\n]*)|(?P<open>/\*)|(?P<dollar>\$(?:[A-Za-z_]\w{0,62})?\$)|(?P<end>;)",
    re.DOTALL,
)
_LETTERS = re.compile(r"[A-Za-z]+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text; `start` is its first character there."""

    text: str
    start: int
    word: str


def split(text: str) -> list[Statement]:
    """Cut a text at its semicolons; PromQL and LogQL are one statement whatever they hold."""
    first = first_word(text)
    if first not in KNOWN_WORDS and not is_sql(text):
        return [Statement(text, 0, first)] if text.strip() else []
    found, start = list[Statement](), 0
    for end in (*_ends(text), len(text)):
        part = text[start:end]
        if first_word(part) or _bare(part):
            shift = len(part) - len(part.lstrip())
            found.append(Statement(part[shift:], start + shift, first_word(part)))
        start = end + 1
    return found


def first_word(text: str) -> str:
    """Return the first word behind spaces, comments and brackets, in lower case.

    >>> first_word("/* a */ -- b\\n(SELECT 1)")
    'select'
    """
    at = 0
    while at < len(text):
        if text[at].isspace() or text[at] == "(":
            at += 1
        elif text.startswith("--", at):
            at = text.find("\n", at) % (len(text) + 1)  # no line behind it: the end
        elif text.startswith("/*", at):
            at = _end_of_comment(text, at + 2)
        else:
            break
    found = _LETTERS.match(text, at)
    return found[0].lower() if found else ""


def _bare(text: str) -> str:
    """Return what is left of a statement without comments."""
    return re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL).strip()


def _ends(text: str) -> Iterator[int]:
    at = 0
    while found := _TOKEN.search(text, at):
        at = found.end()
        if found["end"]:
            yield found.start()
        elif found["dollar"]:
            close = text.find(found["dollar"], at)
            at = len(text) if close < 0 else close + len(found["dollar"])
        elif found["open"]:
            at = _end_of_comment(text, at)


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return edge.end()
    return len(text)


def milliseconds(text: str) -> int:
    """
    >>> milliseconds("5s"), milliseconds("1500"), milliseconds("2min")
    (5000, 1500, 120000)
    """
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :]
    if unit not in _UNITS or not re.fullmatch(r"[\d.]{1,15}", number.strip()):
        raise ValueError(text)
    return round(float(number) * _UNITS[unit])


def _time(text: str) -> str:
    whole = milliseconds(text)
    return "0" if not whole else f"{whole // 1000}s" if whole % 1000 == 0 else f"{whole}ms"


def _flag(text: str) -> str:
    if text.lower() in {"on", "true", "yes", "1", "t"}:
        return "on"
    if text.lower() in {"off", "false", "no", "0", "f"}:
        return "off"
    raise ValueError(text)


def _only(*allowed: str) -> Callable[[str], str]:
    """Take one of these values, and show the first of them."""

    def check(text: str) -> str:
        if re.sub(r"[\s_-]", "", text).lower() not in {one.replace(" ", "").lower() for one in allowed}:
            raise ValueError(text)
        return allowed[0]

    return check


def _engine(text: str) -> str:
    if text.lower() not in get_args(Engine):
        raise ValueError(text)
    return text.lower()


def _is_on(text: str) -> str:
    if _flag(text) != "on":
        raise SqlError(READ_ONLY, "this server only reads")
    return "on"


def _any(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class _Variable:
    default: str
    check: Callable[[str], str]
    name: str = ""
    """Name as it is reported to clients, of those that are."""


_ISOLATION = _only("read committed", "readuncommitted", "readcommitted", "repeatableread", "serializable")
_VARIABLES: Mapping[str, _Variable] = {
    # honoured
    "statement_timeout": _Variable("0", _time),
    PARTIAL_RESPONSE: _Variable("off", _flag),
    ENGINE: _Variable("auto", _engine),
    # reported, and never different
    "server_version": _Variable(SERVER_VERSION, _only(SERVER_VERSION), "server_version"),
    "server_encoding": _Variable("UTF8", _only("UTF8"), "server_encoding"),
    "client_encoding": _Variable(
        "UTF8", _only("UTF8", "utf8", "unicode", "sqlascii", "auto"), "client_encoding"
    ),
    "is_superuser": _Variable("off", _only("off"), "is_superuser"),
    "session_authorization": _Variable("reader", _only("reader", "default"), "session_authorization"),
    "datestyle": _Variable("ISO, MDY", _only("ISO, MDY", "iso", "iso,dmy", "iso,ymd"), "DateStyle"),
    "intervalstyle": _Variable("postgres", _only("postgres"), "IntervalStyle"),
    "timezone": _Variable("UTC", _only("UTC", "gmt", "etc/utc", "zulu", "0", "default"), "TimeZone"),
    "integer_datetimes": _Variable("on", _only("on"), "integer_datetimes"),
    "standard_conforming_strings": _Variable("on", _only("on", "true"), "standard_conforming_strings"),
    "application_name": _Variable("", _any, "application_name"),
    "default_transaction_read_only": _Variable("on", _is_on, "default_transaction_read_only"),
    "in_hot_standby": _Variable("off", _only("off"), "in_hot_standby"),
    # harmless here
    "transaction_read_only": _Variable("on", _is_on),
    "transaction_isolation": _Variable("read committed", _ISOLATION),
    "default_transaction_isolation": _Variable("read committed", _ISOLATION),
    "transaction_deferrable": _Variable("off", _flag),
    "default_transaction_deferrable": _Variable("off", _flag),
    "server_version_num": _Variable("150000", _only("150000")),
    "max_identifier_length": _Variable("63", _only("63")),
    "bytea_output": _Variable("hex", _only("hex")),
    "extra_float_digits": _Variable("3", _only("3", "1", "2")),
    "escape_string_warning": _Variable("on", _flag),
    "search_path": _Variable('"$user", public', _any),
    "client_min_messages": _Variable("notice", _any),
    "row_security": _Variable("on", _flag),
    "jit": _Variable("off", _flag),
    "lock_timeout": _Variable("0", _time),
    "idle_in_transaction_session_timeout": _Variable("0", _time),
    "idle_session_timeout": _Variable("0", _time),
    "tcp_keepalives_idle": _Variable("0", _any),
    "tcp_keepalives_interval": _Variable("0", _any),
    "synchronous_commit": _Variable("on", _any),
    "work_mem": _Variable("4MB", _any),
    "cursor_tuple_fraction": _Variable("0.1", _any),
    "max_parallel_workers_per_gather": _Variable("2", _any),
    "ssl_renegotiation_limit": _Variable("0", _any),
    "session_replication_role": _Variable("origin", _only("origin")),
    "lc_collate": _Variable("C.UTF-8", _only("C.UTF-8")),
    "lc_ctype": _Variable("C.UTF-8", _only("C.UTF-8")),
    "lc_messages": _Variable("C", _any),
    "lc_monetary": _Variable("C", _any),
    "password_encryption": _Variable("scram-sha-256", _any),
    "default_table_access_method": _Variable("heap", _only("heap")),
    "default_tablespace": _Variable("", _only("")),
    "block_size": _Variable("8192", _only("8192")),
    "max_index_keys": _Variable("32", _only("32")),
    "xmloption": _Variable("content", _any),
    "enable_seqscan": _Variable("on", _flag),
    "geqo": _Variable("on", _flag),
}
KNOWN_WORDS = WRITES | {
    "begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "set", "reset", "show",
    "discard", "deallocate", "declare", "fetch", "move", "close", "copy", "listen", "unlisten", "notify",
    "prepare", "execute", "table", "load", "explain",
}  # fmt: skip


class Variables:
    """The variables of one session."""

    def __init__(self) -> None:
        self._start: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def options(self, options: Mapping[str, str]) -> list[str]:
        """Take the options of a start-up message; return the names of those for newer protocols."""
        newer = [name for name in options if name.startswith("_pq_.")]
        pairs = {
            name: text
            for name, text in options.items()
            if name not in {"user", "database", "options", *newer}
        }
        for found in re.finditer(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)", options.get("options", "")):
            pairs[found[1].replace("-", "_")] = re.sub(r"\\(.)", r"\1", found[2])
        if pairs.pop("replication", "off") not in {"off", "false", "0", "no"}:
            raise SqlError("0A000", "there is no replication here", is_fatal=True)
        for name, value in pairs.items():
            self.set(name, _unquoted(value), is_option=True)  # asyncpg quotes them
        self._start = dict(self._values)
        return newer

    def set(self, name: str, value: str, *, is_option: bool = False) -> str:
        """Set a variable; return a warning, or nothing."""
        name = name.replace('"', "").lower()
        known = _VARIABLES.get(name)
        if known is None:
            raise SqlError("42704", f'unrecognized configuration parameter "{name}"')
        try:
            self._values[name] = known.check(value)
        except ValueError:
            if name == "timezone":
                return f"times are in UTC here; the time zone {value!r} is left to the client"
            if name == "extra_float_digits" and is_option:
                return ""
            raise SqlError("22023", f'invalid value for parameter "{name}": "{value}"') from None
        return ""

    def set_by(self, text: str) -> tuple[str, str]:
        """Do a `SET` statement; return the variable, and a warning or nothing."""
        body = " ".join(text.split())
        if body.lower() == "set":
            raise SqlError("42601", "expected SET name = value")
        lower = body.lower()
        if re.match(r"set (session characteristics as |local )?transaction\b", lower):
            check_modes(lower)
            return "", ""
        if found := re.fullmatch(r"set (?:(?:session|local) )?time zone (.+)", body, re.IGNORECASE):
            return "timezone", self.set("timezone", _unquoted(found[1]))
        if found := re.fullmatch(r"set (?:(?:session|local) )?names (.+)", body, re.IGNORECASE):
            return "client_encoding", self.set("client_encoding", _unquoted(found[1]))
        if re.match(r"set (session |local )?(role|session authorization)\b", lower):
            raise SqlError("0A000", "the API key decides who reads; there are no roles to change to")
        words = body.split()
        given = " ".join(
            words[2:] if words[1].lower() in {"session", "local"} and len(words) > 2 else words[1:]
        )
        left, _, right = given.partition("=" if "=" in given.split(" to ")[0] else " to ")
        if not right.strip():
            left, _, right = re.sub(r"\bTO\b", "=", given, count=1, flags=re.IGNORECASE).partition("=")
        name, value = left.strip().replace('"', "").lower(), _unquoted(right.strip())
        if not name or not value:
            raise SqlError("42601", "expected SET name = value")
        if value.lower() == "default":
            self.reset(name)
            return name, ""
        return name, self.set(name, value)

    def reset(self, name: str = "all") -> None:
        if name == "all":
            self._values = dict(self._start)
        elif name not in _VARIABLES:
            raise SqlError("42704", f'unrecognized configuration parameter "{name}"')
        elif name in self._start:
            self._values[name] = self._start[name]
        else:
            self._values.pop(name, None)

    def show(self, name: str) -> str:
        known = _VARIABLES.get(name.lower())
        if known is None:
            raise SqlError("42704", f'unrecognized configuration parameter "{name}"')
        return self._values.get(name.lower(), known.default)

    def all(self) -> dict[str, str]:
        return {known.name or key: self.show(key) for key, known in sorted(_VARIABLES.items())}

    def status(self, only: str = "") -> bytes:
        """Report the variables that clients follow, or one of them."""
        reported = {key: one.name for key, one in _VARIABLES.items() if one.name and only in {"", key}}
        return b"".join(parameter_status(name, self.show(key)) for key, name in reported.items())

    @property
    def statement_timeout_s(self) -> float:
        return milliseconds(self.show("statement_timeout")) / 1000

    @property
    def engine(self) -> Engine:
        return cast("Engine", self.show(ENGINE))

    @property
    def takes_partial(self) -> bool:
        return self.show(PARTIAL_RESPONSE) == "on"


def check_modes(text: str) -> None:
    """Refuse a transaction that would write."""
    if re.search(r"\bread\s+write\b", text.lower()):
        raise SqlError(READ_ONLY, "cannot set transaction read-write mode: this server only reads")


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if text[:1] in {"'", '"'} and text[-1:] == text[:1] else text

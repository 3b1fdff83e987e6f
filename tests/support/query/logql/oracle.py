"""Parsers of log lines in plain Python, a line at a time: what the kernels must agree with."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator

from lakerunner_query.logql.stages.extract import label_name, nested_name

SPACE = " \n\r\t"
Field = tuple[str, str]


class BrokenError(Exception):
    """The line is not what it should be."""


def json_labels(line: str) -> tuple[dict[str, str], str]:
    """First of each name, and what is wrong with the line."""
    found: dict[str, str] = {}
    try:
        for name, value in json_fields(line, None):
            found.setdefault(name, value)
    except BrokenError as error:
        return found, str(error)
    return found, ""


def json_fields(text: str, parent: str | None) -> Iterator[Field]:
    """The fields of an object, those of objects within it as well."""
    at = skip(text, 0)
    need(text[at : at + 1] == "{", "Value looks like object, but can't find closing '}' symbol")
    at = skip(text, at + 1)
    need(at < len(text), "Malformed JSON error")
    while text[at] != "}":
        need(text[at] == '"', "Value looks like object, but can't find closing '}' symbol")
        close = string_end(text, at + 1)
        need(close >= 0, "Malformed JSON error")
        key = unescaped(text[at + 1 : close])
        need(key is not None, "Encountered an invalid escape sequence in a string")
        assert key is not None
        name = label_name(key) if parent is None else nested_name(parent, key)
        at = skip(text, close + 1)
        need(text[at : at + 1] == ":", "Malformed JSON error")
        at = skip(text, at + 1)
        need(at < len(text), "Malformed JSON error")
        at, fields = json_value(text, at, name)
        yield from fields
        at = skip(text, at)
        need(at < len(text), "Value is array, but can't find closing ']' symbol")
        if text[at] != "}":
            need(text[at] == ",", "Value looks like object, but can't find closing '}' symbol")
            at = skip(text, at + 1)
            need(at < len(text), "Value is array, but can't find closing ']' symbol")


def json_value(text: str, at: int, name: str) -> tuple[int, Iterator[Field]]:
    """Where the value at `at` ends, and the fields it makes."""
    if text[at] == '"':
        close = string_end(text, at + 1)
        need(close >= 0, "Value is string, but can't find closing '\"' symbol")
        value = unescaped(text[at + 1 : close]) or ""
        return close + 1, iter([(name, value.replace("\ufffd", " "))])
    if text[at] in "[{":
        end = block_end(text, at)
        symbol = "]" if text[at] == "[" else "}"
        kind = "is array" if symbol == "]" else "looks like object"
        need(end >= 0, f"Value {kind}, but can't find closing '{symbol}' symbol")
        return end, json_fields(text[at:end], name) if symbol == "}" else iter(())
    literal = re.compile(r"[^ \n\r\t,}\]]*").match(text, at)
    assert literal
    known = literal[0] in {"true", "false", "null"} or literal[0][:1] in set("-0123456789")
    need(known and literal[0] != "", "Unknown value type")
    return literal.end(), iter([] if literal[0] == "null" else [(name, literal[0].replace("\ufffd", " "))])


def need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenError(otherwise)


def skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in SPACE:
        at += 1
    return at


def string_end(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == '"':
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def block_end(text: str, at: int) -> int:
    opening, closing, level = text[at], "]" if text[at] == "[" else "}", 0
    while at < len(text):
        if text[at] == '"':
            at = string_end(text, at + 1)
            if at < 0:
                return -1
        level += (text[at] == opening) - (text[at] == closing)
        at += 1
        if level == 0:
            return at
    return -1


def unescaped(raw: str) -> str | None:
    """None if an escape is broken."""
    if re.search(r'\\(?:[^"\\/bfnrtu]|$)', re.sub(r"\\\\", "", raw)):
        return None
    if re.search(r"\\u(?![0-9a-fA-F]{4})", re.sub(r"\\\\", "", raw)):
        return None
    controls = re.sub(r"[\x00-\x1f]", lambda one: f"\\u{ord(one[0]):04x}", raw)
    text = str(json.loads(f'"{controls}"'))
    return None if re.search("[\ud800-\udfff]", text) else text


def logfmt_labels(line: str, *, strict: bool, keep_empty: bool) -> tuple[dict[str, str], str]:
    found: dict[str, str] = {}
    data, at = line, 0
    while at < len(data):
        at, key, value, wrong = logfmt_pair(data, at)
        if wrong and strict:
            return found, f"logfmt syntax error at pos {len(data[:at].encode()) + 1} : {wrong}"
        if wrong:
            while at < len(data) and data[at] > " ":
                at += 1
        elif key and label_name(key) and (value or keep_empty):
            found.setdefault(label_name(key), value.replace("\ufffd", " "))
    return found, ""


def logfmt_pair(data: str, at: int) -> tuple[int, str, str, str]:  # noqa: C901, PLR0911 - as the grammar is
    """Where the pair ends or goes wrong, its key, its value, and what is wrong."""
    while at < len(data) and data[at] <= " ":
        at += 1
    start = at
    while at < len(data) and data[at] > " " and data[at] != "=":
        if data[at] == '"':
            return at, "", "", "unexpected '\"'"
        at += 1
    key = data[start:at]
    if not key and at < len(data):
        return at, "", "", "unexpected '='"
    if "\ufffd" in key:
        return at, "", "", "invalid key"
    if data[at : at + 1] != "=":
        return at, key, "", ""
    at += 1
    if data[at : at + 1] == '"':
        close = string_end(data, at + 1)
        if close < 0:
            return len(data), "", "", "unterminated quoted value"
        value = logfmt_unescaped(data[at + 1 : close])
        return close + 1, key, value or "", "" if value is not None else "invalid quoted value"
    start = at
    while at < len(data) and data[at] > " ":
        if data[at] in '="':
            return at, "", "", f"unexpected '{data[at]}'"
        at += 1
    return at, key, data[start:at], ""


def logfmt_unescaped(raw: str) -> str | None:
    """As of JSON, with an escaped apostrophe; half a surrogate pair is U+FFFD."""
    text, at = "", 0
    while at < len(raw):
        if raw[at] != "\\":
            text, at = text + raw[at], at + 1
            continue
        kind = raw[at + 1]
        if kind == "u":
            if not re.match(r"[0-9a-fA-F]{4}", raw[at + 2 : at + 6]):
                return None
            text, at = text + chr(int(raw[at + 2 : at + 6], 16)), at + 6
        elif kind in "\"\\/'bfnrt":
            text, at = text + {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}.get(kind, kind), at + 2
        else:
            return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def captures(parts: list[str | None], line: str) -> list[str]:
    """What captures (None) between literals get; fewer than there are if the line runs out."""
    found: list[str] = []
    if not line:
        return found
    parts = list(parts)
    if parts[0] is not None:
        if not line.startswith(parts[0]):
            return found
        line, parts = line[len(parts[0]) :], parts[1:]
    while parts:
        literal = parts[1] if len(parts) > 1 else None
        at = line.find(literal) if literal is not None else -1
        found.append(line if at < 0 else line[:at])
        if at < 0 or literal is None:
            return found
        line, parts = line[at + len(literal) :], parts[2:]
    return found


def holds_address(text: str, first: str, last: str) -> bool:
    """Whether an address from `first` to `last` stands in the text."""
    low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
    at = 0
    while at < len(text):
        run = re.compile(r"(?=\d.{0,2}?\.)[\d.]+", re.ASCII | re.DOTALL).match(text, at)
        run = run or re.compile(r"(?=::[0-9a-fA-F]|[0-9a-fA-F]{1,4}:)[0-9a-fA-F:.]+").match(text, at)
        if run is None:
            at += 1
            continue
        try:
            found = ipaddress.ip_address(run[0])
        except ValueError:
            found = None
        if found and found.version == low.version and int(low) <= int(found) <= int(high):
            return True
        at = run.end()
    return False

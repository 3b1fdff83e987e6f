"""Built-in functions of Go templates: comparisons, logic, indexing, printing and escaping.

The runner evaluates `and` and `or` itself, since they skip arguments; only their types are here.

>>> escape_for_html("<a>"), escape_for_javascript("it's <b>")
('&lt;a&gt;', "it\\\\'s \\\\u003Cb\\\\u003E")
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus

from lakerunner_query.gotext.fmt_print import print_value, sprint, sprintf, sprintln
from lakerunner_query.gotext.values import (
    ANY,
    STRING,
    VALUE,
    Function,
    Interface,
    Labels,
    TemplateError,
    Uint8,
    basic_kind,
    from_bytes,
    function,
    is_true,
    size,
    to_bytes,
    type_name,
    unbox,
)

_HTML = str.maketrans({"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"})
_SCRIPT = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "<": "\\u003C",
    ">": "\\u003E",
    "&": "\\u0026",
    "=": "\\u003D",
}


def equal(first: Any, *others: Any) -> bool:
    """Compare with any of the others."""
    if not others:
        raise TemplateError("missing argument for comparison")
    return any(_equal(first, other) for other in others)


def _equal(left: Any, right: Any) -> bool:
    left, right = unbox(left), unbox(right)
    kinds = basic_kind(left), basic_kind(right)
    if kinds[0] != kinds[1] and set(kinds) != {"int", "uint"}:
        if left is not None and right is not None:
            raise TemplateError(
                f"incompatible types for comparison: {type_name(left)} and {type_name(right)}"
            )
        return False
    if not kinds[0]:
        return _equal_values(left, right)
    return bool(left == right)


def _equal_values(left: Any, right: Any) -> bool:
    """Compare values that are no number, text or flag: times can be, lists and maps cannot."""
    if left is None or right is None:
        return left is right
    if isinstance(left, dict) != isinstance(right, dict) or isinstance(left, list) != isinstance(right, list):
        types = f"{type_name(left)}, {type_name(right)}"
        raise TemplateError(f"non-comparable types {_shown(left)}: {types}: {print_value(right)}")
    if isinstance(right, dict | list):
        raise TemplateError(f"non-comparable type {_shown(left)}: {type_name(right)}")
    return bool(left == right)


def _shown(value: Any) -> str:
    return sprintf("%s", [value])


def less(left: Any, right: Any) -> bool:
    left, right = unbox(left), unbox(right)
    kinds = basic_kind(left), basic_kind(right)
    if not all(kinds):
        raise TemplateError("invalid type for comparison")
    if kinds[0] != kinds[1] and set(kinds) != {"int", "uint"}:
        raise TemplateError(f"incompatible types for comparison: {type_name(left)} and {type_name(right)}")
    if kinds[0] in {"bool", "complex"}:
        raise TemplateError("invalid type for comparison")
    if isinstance(left, str):
        return to_bytes(left) < to_bytes(right)
    return bool(left < right)


def less_or_equal(left: Any, right: Any) -> bool:
    return less(left, right) or _equal(left, right)


def length(value: Any) -> int:
    if value is None:
        raise TemplateError("reflect: call of reflect.Value.Type on zero Value")
    value = unbox(value)
    if value is None:
        raise TemplateError("len of nil pointer")
    if isinstance(value, str):
        return size(value)
    if not isinstance(value, dict | list):
        raise TemplateError(f"len of type {type_name(value)}")
    return len(value)


def index(item: Any, *keys: Any) -> Any:
    """Look up keys in turn: `index x 1 "a"` is x[1]["a"]."""
    if unbox(item) is None:
        raise TemplateError("index of untyped nil")
    for key in keys:
        item = unbox(item)
        if item is None:
            raise TemplateError("index of nil pointer")
        item = _look_up(item, unbox(key))
    return item


def _look_up(item: Any, key: Any) -> Any:
    if isinstance(item, dict):
        if key is None:
            raise TemplateError("value is nil; should be of type string")
        if not isinstance(key, str):
            raise TemplateError(f"value has type {type_name(key)}; should be string")
        return item.get(key, "") if isinstance(item, Labels) else Interface(item.get(key))
    if isinstance(item, str):
        raw = to_bytes(item)
        return Uint8(raw[_inside(key, len(raw), "string")])
    if not isinstance(item, list):
        raise TemplateError(f"can't index item of type {type_name(item)}")
    return Interface(item[_inside(key, len(item), "slice")])


def _inside(key: Any, count: int, what: str) -> int:
    at = _position(key, count)
    if at == count:
        raise TemplateError(f"reflect: {what} index out of range")
    return at


def _position(key: Any, limit: int) -> int:
    if key is None:
        raise TemplateError("cannot index slice/array with nil")
    if isinstance(key, bool) or not isinstance(key, int):
        raise TemplateError(f"cannot index slice/array with type {type_name(key)}")
    if not 0 <= key <= limit:
        raise TemplateError(f"index out of range: {int(key)}")
    return int(key)


def slice_of(item: Any, *bounds: Any) -> Any:
    item = unbox(item)
    if item is None:
        raise TemplateError("slice of untyped nil")
    if len(bounds) > 3:
        raise TemplateError(f"too many slice indexes: {len(bounds)}")
    if isinstance(item, str) and len(bounds) == 3:
        raise TemplateError("cannot 3-index slice a string")
    if not isinstance(item, str | list):
        raise TemplateError(f"can't slice item of type {type_name(item)}")
    whole = to_bytes(item) if isinstance(item, str) else item
    given = [_position(unbox(bound), len(whole)) for bound in bounds]
    start, end, *_ = (*given, *(0, len(whole))[len(given) :], 0)
    for low, high in ((start, end), (end, given[2] if len(given) > 2 else len(whole))):
        if low > high:
            raise TemplateError(f"invalid slice index: {low} > {high}")
    part = whole[start:end]
    return from_bytes(part) if isinstance(part, bytes) else part


def call(function_value: Any, *_: Any) -> Any:
    """Refuse: no value of a template is a function."""
    value = unbox(function_value)
    if value is None:
        raise TemplateError("call of nil")
    raise TemplateError(f"non-function {{callee}} of type {type_name(value)}")


def as_text(values: tuple[Any, ...]) -> str:
    return sprint(["<no value>" if unbox(value) is None else value for value in values])


def escape_for_html(*values: Any) -> str:
    return as_text(values).translate(_HTML)


def escape_for_javascript(*values: Any) -> str:
    return "".join(map(_escaped_for_javascript, as_text(values)))


def _escaped_for_javascript(char: str) -> str:
    if char in _SCRIPT:
        return _SCRIPT[char]
    if char < " ":
        return f"\\u00{ord(char):02X}"
    return char if char < "\x80" or char.isprintable() else f"\\u{ord(char):04X}"


def escape_for_url(*values: Any) -> str:
    return quote_plus(to_bytes(as_text(values)))


BUILTINS: tuple[Function, ...] = (
    function("and", lambda *values: values[-1], VALUE, rest=VALUE),
    function("or", lambda *values: values[-1], VALUE, rest=VALUE),
    function("not", lambda value: not is_true(value), VALUE),
    function("eq", equal, VALUE, rest=VALUE),
    function("ne", lambda left, right: not _equal(left, right), VALUE, VALUE),
    function("lt", less, VALUE, VALUE),
    function("le", less_or_equal, VALUE, VALUE),
    function("gt", lambda left, right: not less_or_equal(left, right), VALUE, VALUE),
    function("ge", lambda left, right: not less(left, right), VALUE, VALUE),
    function("len", length, VALUE),
    function("index", index, VALUE, rest=VALUE),
    function("slice", slice_of, VALUE, rest=VALUE),
    function("call", call, VALUE, rest=VALUE),
    function("print", lambda *values: sprint(values), rest=ANY),
    function("println", lambda *values: sprintln(values), rest=ANY),
    function("printf", lambda layout, *values: sprintf(layout, values), STRING, rest=ANY),
    function("html", escape_for_html, rest=ANY),
    function("js", escape_for_javascript, rest=ANY),
    function("urlquery", escape_for_url, rest=ANY),
)
LOGIC = {"and": False, "or": True}
"""Truth of an argument that ends the evaluation of the others."""

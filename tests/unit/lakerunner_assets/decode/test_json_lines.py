"""Lines of JSON against Python's own reader: every leaf of every record, and which lines are rejected."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.json import lines as windows
from lakerunner_assets.decode.json import lines_kernels as kernels
from lakerunner_assets.decode.json.lines import RawRows, line_windows, scan_lines
from lakerunner_assets.decode.payload import open_payload, payload_of
from resources.otel_text import json_double

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["", "é\U0001f600", '"\\/\b\n', "a.b", "x" * 70]
)
KEYS = st.sampled_from(["a", "b", "http", "status", "a.b", "", "é\n"]) | TEXT
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(KEYS, VALUES, max_size=6)


class Pairs(list[tuple[str, Any]]):
    """The members of an object, equal names included."""


def parsed(line: str) -> Any:
    return json.loads(line, object_pairs_hook=Pairs)


def leaves(record: Pairs, path: str | None = None) -> dict[str, tuple[str, Any]]:
    """Flattened, the last of equal keys; null is there to overrule and is dropped by the caller."""
    found: dict[str, tuple[str, Any]] = {}
    for name, value in record:
        key = name if path is None else f"{path}.{name}"
        inner = leaves(value, key) if isinstance(value, Pairs) else {key: leaf(value)}
        for each, pair in inner.items():
            found.pop(each, None)
            found[each] = pair
    return found


def leaf(value: Any) -> tuple[str, Any]:
    if value is None:
        return "empty", None
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return "int", value
    if isinstance(value, int | float):
        return "double", float(value)
    return ("string", value) if isinstance(value, str) else ("array", text_of(value))


def text_of(value: Any) -> str:
    """JSON as our renderer writes it: numbers by kind, no spaces."""
    if isinstance(value, Pairs):
        pairs = (f"{json.dumps(k, ensure_ascii=False)}:{text_of(v)}" for k, v in value)
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, int | float) and leaf(value)[0] == "double":
        return json_double(float(value))
    return json.dumps(value, ensure_ascii=False)


def expected(line: str) -> dict[tuple[str, str], Any]:
    return {(key, kind): value for key, (kind, value) in leaves(parsed(line)).items() if kind != "empty"}


def rows_of(raw: RawRows) -> list[dict[tuple[str, str], Any]]:
    rows: list[dict[tuple[str, str], Any]] = [{} for _ in range(raw.count)]
    for name, column in raw.columns.items():
        assert len(column) == raw.count
        for row, value in zip(rows, column.to_pylist(), strict=True):
            if value is not None:
                row[name] = value
    return rows


def scan(text: str | bytes) -> RawRows:
    return scan_lines(text.encode() if isinstance(text, str) else text, 0)


def whole(data: bytes, slice_bytes: int) -> tuple[list[Any], list[int], int, list[str]]:
    """Rows, ordinals, records seen and first errors over all windows."""
    rows, ordinals, seen, errors = [], [], 0, []
    for part in line_windows(payload_of(data), slice_bytes):
        raw = scan_lines(part.data, part.base)
        rows += rows_of(raw)
        ordinals += [seen + line for line in raw.line_of_row.tolist()]
        seen += raw.lines
        assert raw.lines == raw.count + raw.rejected
        errors += [raw.first_rejected] if raw.rejected else []
    return rows, ordinals, seen, errors


@given(st.lists(RECORDS, max_size=6), st.sampled_from([(",", ":"), (" ,\t", " : ")]), st.booleans())
@QUICK
def test_every_leaf_of_every_record(records: list[Any], separators: Any, ascii_only: bool) -> None:
    lines = [json.dumps(r, separators=separators, ensure_ascii=ascii_only) for r in records]
    text = "\n".join(lines)
    raw = scan(text)
    assert rows_of(raw) == list(map(expected, lines))
    assert raw.line_of_row.tolist() == list(range(len(records)))
    listed = scan(f"[{text.replace(chr(10), ' , ')}]")
    assert rows_of(listed) == rows_of(raw)


def test_doubles_keep_their_sign_and_integers_their_kind() -> None:
    raw = scan('{"a":-0.0,"b":-0,"c":1.0,"d":1e3,"e":9223372036854775808,"f":-9223372036854775808,"g":1e999}')
    row = rows_of(raw)[0]
    assert dict(list(row)) == dict.fromkeys("acdeg", "double") | {"b": "int", "f": "int"}
    assert math.copysign(1, row["a", "double"]) == -1
    assert (row["e", "double"], row["f", "int"], row["g", "double"]) == (2.0**63, -(2**63), math.inf)
    assert raw.notes == {"integers_as_doubles": 1}


def test_the_last_of_a_key_wins_and_is_counted() -> None:
    raw = scan('{"a":1,"a":2,"a":"x"}\n{"a":1,"a":null}\n{"b.c":1,"b":{"c":2}}\n{"a":[1],"\\u0061":[2]}')
    assert rows_of(raw) == [{("a", "string"): "x"}, {}, {("b.c", "int"): 2}, {("a", "array"): "[2]"}]
    assert raw.notes == {"repeated_keys": 5}


def test_types_of_columns() -> None:
    raw = scan('{"i":1,"d":0.5,"b":true,"s":"x","l":[]}')
    types = {key: column.type for (key, _), column in raw.columns.items()}
    assert (types["i"], types["d"], types["b"]) == (pa.int64(), pa.float64(), pa.bool_())
    for name in ("s", "l"):
        assert types[name] in (pa.string(), pa.dictionary(pa.int32(), pa.string()))


def test_keys_beyond_the_limit_go_to_the_map() -> None:
    raw = scan_lines(b'{"a":1,"b":2,"c":3}\n{"a":4}', 0, max_columns=1)
    assert raw.overflow is not None
    assert list(raw.columns) == [("a", "int")]
    assert raw.overflow.to_pylist() == [[("b", "2"), ("c", "3")], None]


BAD = [
    ("nonsense", "expected an object"), ("[1]", "expected an object"), ("1", "expected an object"),
    ('{"a":1', "ends"), ('{"a"', "ends"), ('{"a":"x', "ends"), ("{", "ends"), ('{"a":1}}', "behind"),
    ('{"a":1} {"b":2}', "behind"), ('{"a" 1}', "':'"), ('{"a":1 "b":2}', "','"), ('{"a":1,}', "name"),
    ('{a:1}', "name"), ('{"a":x}', "value"), ('{"a":01}', "number"), ('{"a":-}', "number"),
    ('{"a":1.}', "number"),
    ('{"a":NaN}', "value"), ('{"a":"\\q"}', "escape"), ('{"a":"\t"}', "control"), ('{"a":[1,]}', "value"),
    ('{"a":[1 2]}', "','"), ('{"a":[}', "value"), ('{"a":{"b":1}', "ends"), ('{"a":tru}', "value"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_a_malformed_line_is_rejected_alone(line: str, reason: str) -> None:
    raw = scan('{"a":1,"n":{"b":"x"}}\n\n' + line + '\n {"a":2,"n":{"b":"y"}} \r\n')
    assert rows_of(raw) == [{("a", "int"): i, ("n.b", "string"): t} for i, t in ((1, "x"), (2, "y"))]
    assert (raw.lines, raw.rejected, raw.line_of_row.tolist()) == (3, 1, [0, 2])
    assert reason in raw.first_rejected
    offset = int(raw.first_rejected.split(":", 1)[0].removeprefix("byte "))
    assert 23 <= offset <= 23 + len(line)
    moved = scan_lines(b"x\n" + line.encode(), 1000)
    assert moved.first_rejected.startswith("byte 1000: ")


def test_a_rejected_line_leaves_nothing_behind() -> None:
    """What it read before it broke (keys, escapes, lists, late doubles, counts) is given back."""
    broken = '{"x":{"y":1,"\\u0079":0.12345678901234567890},"l":[1,"\\ud800",99999999999999999999],"z":}'
    good = '{"x":{"y":2,"w":0.1234567890123456789},"l":[3]}'
    raw = scan("\n".join([good, broken, good, broken, good]))
    row = {("x.y", "int"): 2, ("x.w", "double"): 0.1234567890123456789, ("l", "array"): "[3]"}
    assert rows_of(raw) == [row] * 3
    assert (raw.rejected, raw.notes) == (2, {})


def verdict(line: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return isinstance(json.loads(line, parse_constant=refuse), dict)
    except ValueError:
        return False


def test_damaged_lines_are_judged_as_python_does() -> None:
    rng = random.Random(11)
    base = '{"a":[1,-2.5e3,{"b":null}],"c":{"d":"x\\u00e9\\n","e":true},"f":false,"g":0.1}'
    lines = []
    for _ in range(4000):
        letters = list(base)
        for _ in range(rng.randint(1, 3)):
            letters[rng.randrange(len(letters))] = rng.choice('{}[]",:0123456789.eE+-\\untrfals x/')
        lines.append("".join(letters))
    raw = scan("\n".join(lines))
    accepted = [number for number, line in enumerate(lines) if verdict(line)]
    assert raw.line_of_row.tolist() == accepted
    assert rows_of(raw) == [expected(lines[number]) for number in accepted]
    assert 300 < len(accepted) < 3000


def test_lone_surrogates_and_broken_utf8() -> None:
    raw = scan(b'{"a":"\\ud800x","b":"\xff","\\udc00":"\\ud83d\\ude00"}')
    assert rows_of(raw) == [
        {("a", "string"): "\ufffdx", ("b", "string"): "\ufffd", ("\ufffd", "string"): "\U0001f600"}
    ]
    assert raw.notes == {"lone_surrogates": 2, "invalid_utf8": 1}


def test_depth_is_bounded() -> None:
    def nested(levels: int, opening: str, closing: str) -> str:
        return '{"k":' + opening * levels + "1" + closing * levels + "}"

    lines = [nested(99, "[", "]"), nested(100, "[", "]"), nested(99, '{"a":', "}"), nested(100, '{"a":', "}")]
    raw = scan("\n".join([*lines, nested(20000, "[", "]"), nested(20000, '{"a":', "}")]))
    assert raw.line_of_row.tolist() == [0, 2]
    assert rows_of(raw)[0] == {("k", "array"): "[" * 99 + "1" + "]" * 99}
    assert rows_of(raw)[1] == {("k" + ".a" * 99, "int"): 1}
    assert "nested deeper" in raw.first_rejected


@pytest.mark.parametrize(
    "line",
    [
        '{"p":{' + ",".join(f'"{"q" * 60}{i}":1' for i in range(300)) + "}}",
        '{"a":[' + ",".join(["[]"] * 3000) + "]}",
        '{"b":[' + "0.12345678901234567," * 500 + "1]}",
        "{" + ",".join(f'"{i}":{i}' for i in range(900)) + "}",
        '{"s":"' + "\\n" * 9000 + '"}',
        "\n".join(["{}"] * 5000),
    ],
    ids=["dotted keys", "lists", "late doubles", "leaves", "escapes", "records"],
)
def test_room_grows_as_needed(line: str) -> None:
    """More of one kind of room than a window of its size usually needs."""
    assert rows_of(scan(line)) == list(map(expected, line.split("\n")))


def test_keys_that_unfold_without_bound_are_rejected() -> None:
    line = '{"' + "k" * 50_000 + '":{' + ",".join(f'"{i}":1' for i in range(2000)) + "}}"
    raw = scan(line + '\n{"a":1}')
    assert rows_of(raw) == [{("a", "int"): 1}]
    assert "unfold" in raw.first_rejected


@pytest.mark.parametrize("slice_bytes", [1, 7, 40, 300, 1 << 20])
@pytest.mark.parametrize("listed", [False, True])
def test_windows_change_nothing(slice_bytes: int, listed: bool) -> None:
    records = [{"a": i, "n": {"t": "x" * (i % 50), "l": [i, "],["]}} for i in range(60)]
    texts = [json.dumps(record) for record in records]
    good = list(texts)
    texts[7] = texts[31] = '{"a" 1}'
    texts[12] = "[1,2]"
    data = "\n\n".join(texts)
    if listed:
        data = f" \n[{', '.join(texts[:40])}]\n[] [\n{' ,'.join(texts[40:])} ] "
    rows, ordinals, seen, errors = whole(b"\xef\xbb\xbf" + data.encode(), slice_bytes)
    kept = [i for i in range(60) if i not in {7, 12, 31}]
    assert rows == [expected(good[i]) for i in kept]
    assert (ordinals, seen) == (kept, 60)
    assert errors[0] == f"byte {data.index(texts[7]) + 3 + 5}: expected ':' behind a name"


@pytest.mark.parametrize(
    "text", ['[{"a":1}', '[{"a":1},', '[{"a":1},,{"a":2}]', '[{"a":1}]x', '[{"a":"x]', "[,]"]
)
@pytest.mark.parametrize("slice_bytes", [1, 4, 100])
def test_broken_lists_fail_the_object(text: str, slice_bytes: int) -> None:
    with pytest.raises(MalformedError):
        whole(text.encode(), slice_bytes)


def test_records_that_are_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_LINE_BYTES", 1000)
    long = '{"a":"' + "x" * 5000 + '"}'
    seen = [
        (part.base, len(part.data))
        for part in line_windows(payload_of(f'{{"a":1}}\n{long}\n{{"a":2}}'.encode()), 64)
    ]
    assert seen == [(0, 8), (8, 1001), (8 + len(long) + 1, 7)]
    with pytest.raises(TooLargeError, match="1000 bytes"):
        list(line_windows(payload_of(f"[{long}]".encode()), 64))


@pytest.mark.slow
def test_a_line_beyond_the_limit_is_rejected() -> None:
    long = b'{"a":"' + b"x" * kernels.MAX_LINE_BYTES + b'"}'
    raw = scan(long + b'\n{"a":1}')
    assert rows_of(raw) == [{("a", "int"): 1}]
    assert raw.first_rejected == "byte 0: record longer than 64 MiB"


def test_a_window_of_nothing() -> None:
    for data in (b"", b"\n \n", b"[]"):
        raw = scan(data)
        assert (raw.count, raw.lines, raw.columns, raw.overflow) == (0, 0, {}, None)


def test_a_file_is_read_in_windows(tmp_path: Any) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"a":1}\n' * 20_000)
    with open_payload(path, 1 << 30) as payload:
        sizes = [len(part.data) for part in line_windows(payload, 4096)]
    assert (sum(sizes), max(sizes)) == (160_000, 4096)

"""CSV: cells as Python's csv module finds them, and damage that stays where it is."""

from __future__ import annotations

import csv
import io
import itertools
import resource
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakerunner_assets.decode.dispatch import Place, Request
from lakerunner_assets.decode.errors import MalformedError, TooLargeError
from lakerunner_assets.decode.foreign import csv_kernels
from lakerunner_assets.decode.foreign.csv import MAX_WIDTH, csv_windows, decode_csv, read_header
from lakerunner_assets.decode.payload import open_payload, payload_of
from resources.lake.layout import Signal
from resources.lake.options import DecodeOptions
from tests.support.decode.foreign_files import decode_rows, decoded, notes_of

Cells = dict[str, str | None]
TEXT = st.text(alphabet=st.sampled_from('ab ,;"\n\r\t|é1'), max_size=6)


def cells(data: bytes, slice_bytes: int = 1 << 20) -> tuple[list[Cells], list[int], int, str]:
    """Rows, their ordinals, how many were rejected and why the first."""
    payload = payload_of(data)
    header = read_header(payload)
    rows: list[Cells] = []
    ordinals: list[int] = []
    rejected, first, seen = 0, "", 0
    for window in csv_windows(payload, header, slice_bytes):
        found: list[Cells] = [dict.fromkeys(header.names) for _ in range(window.count)]
        for (name, kind), column in window.columns.items():
            assert kind == "string"
            for row, value in zip(found, column.to_pylist(), strict=True):
                row[name] = value
        rows += found
        ordinals += (window.line_of_row + seen).tolist()
        rejected += window.rejected
        first = first or window.first_rejected
        seen += window.lines
    return rows, ordinals, rejected, first


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(TEXT, min_size=3, max_size=3), max_size=6),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_what_is_written_is_read(rows: list[list[str]], delimiter: str, ending: str, window: int) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerow(["first", "second", "third"])
    writer.writerows(rows)
    found, ordinals, rejected, _ = cells(text.getvalue().encode(), window)
    assert [list(row.values()) for row in found] == rows
    assert ordinals == list(range(len(rows)))
    assert rejected == 0


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab,"\n'), max_size=40))
def test_loose_text_is_read_as_python_reads_it(body: str) -> None:
    """Where every row fits and quotes close; empty unquoted cells are absent."""
    wanted = [row for row in csv.reader(io.StringIO(body + "\n", newline="")) if row]
    assumed = body.count('"') % 2 == 0 and all(len(row) == 2 for row in wanted)
    found, _, rejected, _ = cells(b"x,y\n" + body.encode())
    if assumed and not rejected:
        assert [[value or "" for value in row.values()] for row in found] == wanted
    assert rejected == 0 or not assumed or '"' in body


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from('ab,"\n\r'), max_size=60), st.integers(1, 30))
def test_windows_do_not_matter(body: str, window: int) -> None:
    data = b"x,y\n" + body.encode()
    assert cells(data, window) == cells(data)


def test_absent_and_empty_are_different() -> None:
    found, *_ = cells(b'a,b\n,""\n')
    assert found == [{"a": None, "b": ""}]


def test_rows_of_a_wrong_width_are_rejected_alone() -> None:
    found, ordinals, rejected, first = cells(b"a,b\n1,2\n1\n\n1,2,3\n3,4\n")
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert ordinals == [0, 3]
    assert rejected == 2
    assert first == "byte 8: 1 fields, expected 2"


def test_a_quote_that_never_closes_costs_one_line() -> None:
    found, ordinals, rejected, first = cells(b'a,b\n1,2\n"oops,2\n3,4\n5,"6\n7"\n')
    assert found == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6\n7"}]
    assert ordinals == [0, 2, 3]
    assert rejected == 1
    assert first.startswith("byte 8: ")


def test_a_quote_that_closes_in_another_row_costs_its_line() -> None:
    """The second quote's line is whole by itself once the first line is given up."""
    found, ordinals, rejected, _ = cells(b'a,b\n"oops,2\n3,"x"\n5,6\n')
    assert found == [{"a": "3", "b": "x"}, {"a": "5", "b": "6"}]
    assert (ordinals, rejected) == ([1, 2], 1)


def test_text_behind_a_closing_quote_belongs_to_the_value() -> None:
    found, *_ = cells(b'a,b\n"x"y""z,"p""q"r\n')
    assert found == [{"a": 'xy""z', "b": 'p"qr'}]


def test_rows_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = csv_kernels.MAX_ROW_BYTES
    huge = b"9," + b"x" * (limit + 10)
    quoted = b'9,"' + b"y\n" * (limit // 2 + 10) + b'"'
    rest = b"".join(b"%d,ok\n" % number for number in range(3))
    found, ordinals, rejected, first = cells(b"a,b\n1,2\n" + huge + b"\n3,4\n" + rest, 1 << 16)
    assert [row["a"] for row in found] == ["1", "3", "0", "1", "2"]
    assert (ordinals, rejected) == ([0, 2, 3, 4, 5], 1)
    assert first == f"byte 8: longer than {limit} bytes"
    found, _, rejected, first = cells(b"a,b\n1,2\n" + quoted + b"\n3,4\n", 1 << 16)
    assert [row["a"] for row in found] == ["1", "3"]
    assert first == f"byte 8: a quote opens and does not close within {limit} bytes"
    assert rejected == quoted.count(b"\n") + 1


def test_a_last_row_without_end() -> None:
    assert cells(b"a,b\n1,2\n3,4")[0] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert cells(b'a,b\r\n1,2\r\n3,"4"\r\n\r\n')[0] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert cells(b"a,b\n1,2\r")[0] == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (b"\xef\xbb\xbfa,b", ("a", "b")),
        (b"\n\r\n\xef,b", ("\ufffd", "b")),
        (b'"a,1";b', ("a,1", "b")),
        (b"a\tb,c\td", ("a", "b,c", "d")),
        (b"a|b", ("a", "b")),
        (b'a,a,,"", a ', ("a", "a_2", "column_3", "column_4", "a_3")),
        (b"a_2,a,a", ("a_2", "a", "a_3")),
        (b"one", ("one",)),
    ],
)
def test_headers(head: bytes, names: tuple[str, ...]) -> None:
    header = read_header(payload_of(head + b"\n1\n"))
    assert header.names == names
    assert read_header(payload_of(head)).names == names


def test_headers_that_are_none() -> None:
    with pytest.raises(MalformedError, match="no header"):
        read_header(payload_of(b'"open,'))
    with pytest.raises(MalformedError, match="no header"):
        read_header(payload_of(b"\n\n"))
    with pytest.raises(TooLargeError, match=f"expected at most {MAX_WIDTH}"):
        read_header(payload_of(b"," * (MAX_WIDTH + 1) + b"\n"))


def test_a_header_alone_has_no_rows() -> None:
    assert decode_rows(b"time,message\n", "csv") == []
    assert decode_rows(b"time,message", "csv") == []


def test_broken_utf8_is_repaired_and_counted() -> None:
    parts = decoded(b"message,x\nfine,1\nbro\xffken,2\n", "csv")
    assert parts[0].table.column("log_message").to_pylist() == ["fine", "bro\ufffdken"]
    assert notes_of(parts)["invalid_utf8"] == 1


def test_values_stay_text() -> None:
    (row,) = decode_rows(b"message,count,ok\nhi,007,true\n", "csv")
    assert row["attributes"] == {("record", "count", "string"): "007", ("record", "ok", "string"): "true"}


@pytest.mark.slow
def test_a_large_file_takes_little_memory() -> None:
    """300 MB in a process of its own, because what counts is its peak."""
    import subprocess
    import sys

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.csv"
        line = (
            b"2026-01-02T03:04:05.%06dZ,INFO,checkout,order %d paid after %d ms,eu-central-1,"
            b"0af7651916cd43dd8448eb211c%06x,%d\n"
        )
        with path.open("wb") as file:
            file.write(b"time,level,service,message,region,trace_id,status\n")
            for start in itertools.count(0, 10_000):
                if file.tell() > 300_000_000:
                    break
                file.writelines(line % (n, n, n % 977, n, 200 + n % 7) for n in range(start, start + 10_000))
        code = f"from {__name__} import decode_and_measure; decode_and_measure({str(path)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        rows, growth = map(int, done.stdout.split())
    assert rows > 2_000_000
    assert growth < 400_000_000, f"peak grew by {growth} bytes"


def decode_and_measure(path: str) -> None:
    """Prints rows and the growth of the peak; kernels are compiled before."""
    decode_rows(b"time,message,trace_id\n1,a,b\n", "csv")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    request = Request("large.csv", Place(1, 0, 1), DecodeOptions(), 128 << 20)
    rows = 0
    with open_payload(Path(path), 1 << 30) as payload:
        for part in decode_csv(Signal.LOGS)(payload, request):
            rows += part.table.num_rows
    print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)

"""Templates over columns: what runs how often, and that every row gets its own text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.errors import QueryError
from lakerunner_query.gotext.template.execute import Execution
from lakerunner_query.logql.templates import columns
from lakerunner_query.logql.templates.chains import Computed, Label, Plain, compile_template
from lakerunner_query.logql.templates.columns import render
from tests.support.query.logql.template_frames import NOW_NS, frame_of

texts = st.one_of(st.none(), st.text(alphabet="ab{é\n", max_size=3))
rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=12)
TEMPLATES = [
    "{{.a}} - {{.b}}",
    "{{.a | upper}}{{.b}}",
    "{{if .a}}[{{.b}}]{{else}}none{{end}}{{.missing}}",
    "{{$x := .a}}{{.b}}{{$x}}",
    "{{range $k, $v := .}}{{$k}}={{$v}};{{end}}",
    "{{__line__}}|{{.a}}|{{__timestamp__ | unixEpochNanos}}",
    "{{trunc (len .a) .b}}{{index . .a}}",
]


@given(rows, st.sampled_from(TEMPLATES))
def test_a_frame_is_its_rows_one_by_one(cells: list[tuple[str | None, str | None]], template: str) -> None:
    lines = [f"line {number % 3}" for number in range(len(cells))]
    frame = frame_of({"a": [a for a, _ in cells], "b": [b for _, b in cells]}, lines)
    whole = render(compile_template(template), frame, NOW_NS).texts.to_pylist()
    alone = [
        render(compile_template(template), frame.take(frame.tsns[row : row + 1]), NOW_NS).texts[0].as_py()
        for row in range(frame.count)
    ]
    assert whole == alone


@given(rows)
def test_labels_between_text_are_put_together(cells: list[tuple[str | None, str | None]]) -> None:
    frame = frame_of({"a": [a for a, _ in cells], "b": [b for _, b in cells]})
    found = render(compile_template("<{{.a}}|{{.b}}>"), frame, NOW_NS).texts.to_pylist()
    assert found == [f"<{a or ''}|{b or ''}>" for a, b in cells]


def test_pieces() -> None:
    pieces = compile_template("{{.app}}: {{.msg | upper}}").pieces
    assert pieces[:2] == (Label("app"), Plain(": "))
    assert isinstance(pieces[2], Computed)
    assert pieces[2].reads.labels == {"msg"}


def test_a_declaration_ties_what_follows() -> None:
    pieces = compile_template("{{.a}}{{($x := .b)}}{{$x}}{{.c}}").pieces
    assert pieces[0] == Label("a")
    assert len(pieces) == 2


@pytest.mark.parametrize(
    ("template", "labels", "line", "time"),
    [
        ("plain", frozenset(), False, False),
        ("{{.a}}{{.b.c}}", frozenset({"a", "b"}), False, False),
        ("{{with .a}}{{.x}}{{$.b}}{{end}}", frozenset({"a", "b"}), False, False),
        ("{{with .a}}x{{else}}{{.c}}{{end}}", frozenset({"a", "c"}), False, False),
        ("{{range fromJson .a}}{{.x}}{{end}}", frozenset({"a"}), False, False),
        ("{{if .a}}{{.b}}{{end}}", frozenset({"a", "b"}), False, False),
        ("{{(fromJson .a).b.c}}", frozenset({"a"}), False, False),
        ('{{index . "a"}}', None, False, False),
        ("{{$}}", None, False, False),
        ("{{with $}}{{.a}}{{end}}", None, False, False),
        ('{{define "t"}}{{__line__}}{{end}}{{template "t" .a}}', frozenset({"a"}), True, False),
        ("{{__line__ | len}}{{__timestamp__.Year}}", frozenset(), True, True),
    ],
)
def test_what_is_read(template: str, labels: frozenset[str] | None, line: bool, time: bool) -> None:
    reads = compile_template(template).reads
    assert (reads.labels, reads.line, reads.time) == (labels, line, time)


def test_a_piece_runs_once_per_distinct_input(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    class Counted(Execution):
        def __init__(self, *given: Any) -> None:
            ran.append(given)
            super().__init__(*given)

    monkeypatch.setattr(columns, "Execution", Counted)
    frame = frame_of({"a": ["x", "y", "x", None] * 50, "b": [str(row) for row in range(200)]})
    render(compile_template("{{print .a 1}}{{.b}}"), frame, NOW_NS)
    assert len(ran) == 3


def test_errors_belong_to_rows() -> None:
    frame = frame_of({"a": ["1h", "x", "2m", "y", "x"]})
    found = render(compile_template("{{.a}}={{duration .a}}"), frame, NOW_NS)
    assert [code < 0 for code in found.failure] == [True, False, True, False, False]
    assert found.messages[found.failure[1]].endswith('error calling duration: time: invalid duration "x"')
    assert found.messages[found.failure[3]].endswith('error calling duration: time: invalid duration "y"')
    assert found.texts.to_pylist()[::2][:2] == ["1h=3600", "2m=120"]


def test_the_first_failing_action_is_told() -> None:
    found = render(compile_template("{{bytes .a}}{{duration .a}}"), frame_of({"a": ["x"]}), NOW_NS)
    assert "error calling bytes" in found.messages[found.failure[0]]


def test_no_rows() -> None:
    frame = frame_of({"a": []}, [])
    assert render(compile_template("{{.a}}{{.a | upper}}x"), frame, NOW_NS).texts.to_pylist() == []


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    found = render(compile_template('{{"\\xff"}}{{.a | b64dec}}'), frame_of({"a": ["/w=="]}), NOW_NS)
    assert found.texts.to_pylist() == ["\ufffd\ufffd"]


def test_the_check_can_end_the_work() -> None:
    class CancelledError(QueryError):
        pass

    def check() -> None:
        raise CancelledError("gone")

    with pytest.raises(CancelledError):
        render(compile_template("{{range 100000}}{{end}}"), frame_of({}, ["x"]), NOW_NS, check)

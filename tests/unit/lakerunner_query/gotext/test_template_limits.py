"""Templates made to hurt end soon, in words, and before the memory is full."""

from __future__ import annotations

import sys
import time

import pytest

from lakerunner_query.errors import LimitExceededError, TemplateSyntaxError
from lakerunner_query.gotext import limits
from lakerunner_query.logql.templates.chains import compile_template
from lakerunner_query.logql.templates.columns import render
from tests.support.query.logql.template_frames import NOW_NS, frame_of, text_of

LOOPS = [
    "{{range 1000000000}}{{end}}",
    "{{range 1000000000}}x{{end}}",
    "{{range 100000}}{{range 100000}}x{{end}}{{end}}",
    '{{define "a"}}{{range 50}}{{template "b" .}}{{end}}{{end}}'
    '{{define "b"}}{{range 50}}{{template "c" .}}{{end}}{{end}}'
    '{{define "c"}}{{range 500}}x{{end}}{{end}}{{template "a" .}}',
]
GROWING = [
    '{{repeat 1000000000 "x"}}',
    '{{indent 1000000000 "x"}}',
    '{{nindent 1000000000 "x"}}',
    '{{alignLeft 1000000000 "x"}}',
    '{{alignRight 1000000000 "x"}}',
    '{{$x := "aaaa"}}{{range 100}}{{$x = printf "%s%s" $x $x}}{{end}}',
    '{{$x := "aaaa"}}{{range 100}}{{$x = print $x $x}}{{end}}',
    '{{$x := "aaaa"}}{{range 100}}{{$x = println $x $x}}{{end}}',
    '{{$x := "a"}}{{range 100}}{{$x = replace "a" "aaaaaaaaaaaaaaaaaaaa" $x}}{{end}}',
    '{{$x := "a"}}{{range 100}}{{$x = Replace $x "" "aaaaaaaa" -1}}{{end}}',
    '{{$x := "a"}}{{range 100}}{{$x = regexReplaceAll "a" $x "aaaaaaaaaaaaaaaaaaaa"}}{{end}}',
    '{{$x := "a"}}{{range 100}}{{$x = regexReplaceAll "(a*)" $x "$1$1$1"}}{{end}}',
    '{{$x := "&"}}{{range 100}}{{$x = html $x $x}}{{end}}',
    '{{$x := "&"}}{{range 100}}{{$x = urlquery $x $x}}{{end}}',
    '{{$x := "&"}}{{range 100}}{{$x = b64enc (print $x $x)}}{{end}}',
    '{{$l := fromJson "[1,1,1,1,1,1,1,1,1,1]"}}{{printf "%1000000v" $l}}',
    '{{range 50}}{{repeat 100000 "x"}}{{end}}',
    '{{$a := ""}}{{range 100}}{{$a = repeat 4000000 "x"}}{{end}}',
]  # fmt: skip


@pytest.mark.parametrize("template", LOOPS)
def test_loops_run_out_of_steps(template: str) -> None:
    start = time.process_time()
    with pytest.raises(LimitExceededError, match="steps for one line"):
        text_of(template)
    assert time.process_time() - start < 40


@pytest.mark.parametrize("template", GROWING)
def test_texts_cannot_grow_for_ever(template: str) -> None:
    start = time.process_time()
    with pytest.raises(LimitExceededError, match="a template makes"):
        text_of(template)
    assert time.process_time() - start < 40


def test_templates_that_call_themselves_stop() -> None:
    told = text_of('{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}')
    assert told.endswith(f"exceeded maximum template depth ({limits.DEPTH})")


def test_templates_that_call_themselves_within_many_blocks_stop() -> None:
    """Where Python's own limit is reached first; PromQL raises it for the whole process."""
    nested = "{{if true}}" * 40 + '{{template "a" .}}' + "{{end}}" * 40
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        with pytest.raises(LimitExceededError, match="too deeply"):
            text_of('{{define "a"}}' + nested + '{{end}}{{template "a" .}}')
        sys.setrecursionlimit(12_000)
        told = text_of('{{define "a"}}' + nested + '{{end}}{{template "a" .}}')
        assert told.endswith(f"exceeded maximum template depth ({limits.DEPTH})")
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "template",
    [
        "{{" + "(" * 1000 + ".a" + ")" * 1000 + "}}",
        "{{if .a}}" * 1000 + "{{end}}" * 1000,
        "{{if .a}}x{{else " + "if .b}}{{else " * 1000 + "if .c}}{{end}}",
        "{{ " + "9" * 100_000 + " }}",
        "{{" * 50_000,
        '{{define "a"}}' * 1000,
    ],
)
def test_deep_and_long_templates_are_refused(template: str) -> None:
    start = time.process_time()
    with pytest.raises(TemplateSyntaxError):
        compile_template(template)
    assert time.process_time() - start < 30


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ('{{count "(a+)+b" .x}}', "a" * 100_000),
        ('{{count "(x+x+)+y" .x}}', "x" * 1_000_000),
        ("{{regexReplaceAll `(.*)*$` .x `-`}}", "x" * 100_000),
        ("{{regexReplaceAll `(((a{30}){30}){30})` .x ``}}", "x"),
        ("{{fromJson .x}}", "[" * 100_000),
        ("{{fromJson .x}}", "[" * 5_000 + "]" * 5_000),
        ("{{duration .x}}", "1h" * 100_000),
        ("{{bytes .x}}", "1" * 100_000),
        ("{{unixToTime .x}}", "9" * 100_000),
        ("{{int .x}} {{addf .x 1}} {{float64 .x}}", "9" * 100_000),
        ("{{toDate .x .x}}", "2006" * 20_000),
        ("{{b64dec .x}}", "\n" * 300_000 + "!"),
        ("{{printf .x}}", "%d" * 50_000),
        ("{{printf .x 1}}", "%[1]999999d" * 30),
        ("{{title .x}}{{upper .x | lower}}", "é" * 300_000),
        ("{{round .x 999999999}}{{round .x -999999999}}", "1.5"),
        ("{{mulf " + ".x " * 500 + "}}", "1.2345678901234567e308"),
    ],
)
def test_hostile_values_cost_little(template: str, value: str) -> None:
    start = time.process_time()
    text_of(template, x=value)
    assert time.process_time() - start < 30


def test_all_lines_of_a_frame_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAME_STEPS", 10_000)
    monkeypatch.setattr(limits, "STEPS_PER_LINE", 10)
    frame = frame_of({"a": [str(row) for row in range(1000)]})
    render(compile_template("{{.a | upper}}"), frame, NOW_NS)
    with pytest.raises(LimitExceededError, match="for 1000 lines"):
        render(compile_template("{{$a := .a}}{{range 100}}{{$a}}{{end}}"), frame, NOW_NS)


def test_all_texts_of_a_frame_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAME_BYTES", 100_000)
    frame = frame_of({"a": ["x" * 1000] * 200})
    with pytest.raises(LimitExceededError, match="200 lines"):
        render(compile_template("{{.a}}"), frame, NOW_NS)
    with pytest.raises(LimitExceededError, match="200 lines"):
        render(compile_template("{{.a | upper}}"), frame, NOW_NS)


def test_a_line_put_together_is_bounded() -> None:
    with pytest.raises(LimitExceededError, match="a template makes"):
        text_of("{{.a}}" * 50, a="x" * 100_000)

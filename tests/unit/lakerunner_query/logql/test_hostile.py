"""Lines and stages made to hurt, through the whole pipeline: it ends soon, in bounded memory, with words."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import psutil
import pyarrow as pa
import pytest

from lakerunner_query.errors import LimitExceededError, ParseError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import LogFrame
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand
from lakerunner_query.plan.optimise import improve_cached
from tests.support.query.logql.template_frames import NOW_NS, frame_of, texts_of

MEGABYTE = 1 << 20
SECONDS = 15
"""Far above what it takes, far below what a stage takes that is not linear."""


def ran(lines: Sequence[str] | pa.StringArray, stages: str) -> LogFrame:
    """The frame behind the stages, if that took neither long nor much memory."""
    query = parse('{app="x"} ' + stages)
    frame = frame_of({}, lines)
    before, start = psutil.Process().memory_info().rss, time.process_time()
    found = pipeline.apply(frame, query.stages, Demand(None), NOW_NS)
    assert time.process_time() - start < SECONDS
    assert psutil.Process().memory_info().rss - before < 1 << 30
    return found


@pytest.fixture(autouse=True, scope="module")
def compiled_kernels() -> None:
    """So that no test measures the compiler."""
    for stages in ("| json", "| logfmt", "| pattern `<a> <b>`", "| decolorize", "| unpack", '|> "a<_>"'):
        ran(["a b"], stages)


@pytest.mark.parametrize(
    "stages",
    [
        "|~ `(a+)+$`",
        "!~ `(a|aa)+b`",
        "|~ `(.*)*x`",
        "| regexp `(?P<x>(a+)+)b`",
        "| regexp `(?P<x>.*)(?P<y>.*)(?P<z>.*)b$`",
        "| label_format a=`{{__line__}}` | a=~`(a+)+b`",
        '| line_format `{{regexReplaceAll "(a+)+b" __line__ "x"}}`',
        "|> `<_>a<_>a<_>a<_>b`",
        "| pattern `<a>a<b>a<c>b`",
    ],
)
def test_regexes_and_patterns_stay_linear(stages: str) -> None:
    ran(["a" * 100_000 + "!"] * 20, stages)


@pytest.mark.parametrize("stages", ["|~ `((a{100}){100}){100}`", "| regexp `(?P<x>((a{100}){100}){100})`"])
def test_regexes_that_explode_are_refused(stages: str) -> None:
    with pytest.raises(ParseError):
        ran(["a"], stages)


LONG = {
    "text": "word " * (MEGABYTE // 5),
    "no end": '{"a":"' + "x" * MEGABYTE,
    "json": '{"a":"' + "x" * MEGABYTE + '","b":1}',
    "quotes": '"' * MEGABYTE,
    "equals": "=" * MEGABYTE,
    "pairs": "a=b " * (MEGABYTE // 4),
    "escapes": 'a="' + "\\n" * (MEGABYTE // 2) + '"',
    "braces": "{" * MEGABYTE,
    "nested": '{"a":' * (MEGABYTE // 10) + "1" + "}" * (MEGABYTE // 10),
    "colours": "\x1b[31m" * (MEGABYTE // 5),
    "wide": "世界" * (MEGABYTE // 6),
    "zeros": "\x00" * MEGABYTE,
}
STAGES = [
    "|= `needle`",
    "|~ `needle|(x+y)`",
    "| json",
    '| json a="a", b="b.c[0]"',
    "| logfmt",
    "| logfmt --strict --keep-empty",
    "| logfmt a, b",
    "| pattern `<a> <b>=<c>`",
    "| regexp `(?P<first>\\\\w+) (?P<rest>.*)`",
    "| unpack",
    "| decolorize",
    '|= ip("10.0.0.0/8")',
    "| line_format `{{__line__ | upper | trunc 100}}`",
    "| label_format l=`{{__line__ | len}}`",
]


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("stages", STAGES)
def test_lines_of_a_megabyte(kind: str, stages: str) -> None:
    found = ran([LONG[kind], "short"], stages)
    assert found.count <= 2


MANY = ",".join(f'"k{number}":"{number}"' for number in range(10_000))


@pytest.mark.parametrize(
    ("line", "stages"),
    [
        ("{" + MANY + "}", "| json"),
        (" ".join(f"k{number}={number}" for number in range(10_000)), "| logfmt"),
        ('{"_entry":"inside",' + MANY + "}", "| unpack"),
    ],
    ids=["json", "logfmt", "unpack"],
)
def test_ten_thousand_labels_in_a_line(line: str, stages: str) -> None:
    found = ran([line, line, "{}"], stages + " | k7777=`7777` | line_format `{{.k42}}` | drop k1")
    assert found.line.to_pylist() == ["42", "42"]
    assert texts_of(found, "k9999") == ["9999", "9999"]
    assert "k1" not in found.labels


def test_other_labels_in_every_line() -> None:
    lines = ["{" + ",".join(f'"k{row}_{n}":"{n}"' for n in range(100)) + "}" for row in range(100)]
    found = ran(lines, "| json")
    assert texts_of(found, "k50_99")[50] == "99"


def invalid(lines: Sequence[bytes]) -> pa.StringArray:
    """As Parquet files of others may hold them: text that is none."""
    binary = pa.array(lines, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(lines), binary.buffers())


@pytest.mark.parametrize("stages", STAGES)
def test_lines_that_are_no_text(stages: str) -> None:
    lines = invalid([b"\xff\xfe a=\xc3 b=c", b'{"a":"\xff"}', b"\xed\xa0\x80", b"a=\xf0\x9f b=\x80"])
    frame = LogFrame(np.arange(4, dtype=np.int64), lines, {})
    start = time.process_time()
    found = pipeline.apply(frame, parse('{app="x"} ' + stages).stages, Demand(None), NOW_NS)
    assert found.count <= 4
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(
    "stages",
    [
        "| line_format `{{range 1000000000}}x{{end}}`",
        "| label_format a=`{{range 1000000000}}x{{end}}`",
        '| line_format `{{repeat 1000000000 "x"}}`',
        "| line_format `{{repeat 1000 __line__}}` | line_format `{{repeat 1000 __line__}}`",
        "| line_format `{{__line__}}{{__line__}}{{__line__}}{{__line__}}`" * 20,
        '| line_format `{{$x := repeat 1000 __line__}}{{range 100}}{{$n := count "b" $x}}{{end}}`',
        '| line_format `{{$x := repeat 1000 __line__}}{{range 100}}{{if contains "b" $x}}{{end}}{{end}}`',
        "| line_format `{{__line__ | repeat 1000" + " | upper" * 100 + "}}`",
    ],
)
def test_templates_that_never_end(stages: str) -> None:
    with pytest.raises(LimitExceededError, match="template"):
        ran(["x" * 1000] * 10, stages)


def test_a_cancelled_query_ends_in_the_middle_of_a_template() -> None:
    class GoneError(Exception):
        pass

    def check() -> None:
        raise GoneError

    stages = parse('{app="x"} | line_format `{{range 100000}}{{end}}`').stages
    with pytest.raises(GoneError):
        pipeline.apply(frame_of({}, ["x"]), stages, Demand(None), NOW_NS, check)


@pytest.mark.parametrize("count", ["1" * 5_000, "1000" + "0" * 5_000, "1000}a{1"])
def test_repetitions_beyond_bounds_are_refused(count: str) -> None:
    with pytest.raises(ParseError, match=r"expression too large|invalid repeat count"):
        parse(f'{{app="x"}} |~ "a{{{count}}}"')


def test_groups_in_groups_end_in_words_or_an_answer() -> None:
    assert ran(["a"], '|~ "' + "(" * 900 + "a" + ")" * 900 + '"').count == 1
    nested = "(" * 10_000 + "a" + ")" * 10_000
    improve_cached(parse(f'{{app="x"}} |~ "{nested}"'))


def test_a_thousand_captures_are_refused() -> None:
    with pytest.raises(ParseError, match="1000 groups capture, more than 200"):
        parse('{app="x"} | regexp "' + "".join(f"(?P<g{n}>.?)" for n in range(1_000)) + '"')

"""Lines that nobody should write: each has its bound or its plain answer."""

from __future__ import annotations

import json

import pytest

from lakerunner_query.errors import LimitExceededError
from lakerunner_query.logql import pipeline
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.stages import extract
from tests.support.query.logql.frames import applied, frame_of, labels, labels_of, passing


def test_ten_thousand_labels_of_one_line() -> None:
    line = json.dumps({f"k{number}": number for number in range(10_000)})
    (found,) = labels("| json", line)
    assert len(found) == 10_000
    assert found["k9999"] == "9999"
    (found,) = labels("| logfmt", " ".join(f"k{number}=v{number}" for number in range(10_000)))
    assert found["k1234"] == "v1234"


def test_too_many_labels_of_too_many_lines_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "MOST_CELLS", 10)
    with pytest.raises(LimitExceededError, match="a parser makes 4 labels of 3 lines; keep the wanted ones"):
        applied(frame_of(["a=1 b=2", "c=3", "d=4"]), "| logfmt")
    assert len(applied(frame_of(["a=1 b=2", "c=3", "d=4"]), "| logfmt | keep a").labels) == 1


def test_too_many_keys_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "MOST_PATHS", extract.FEW_PATHS)
    with pytest.raises(LimitExceededError, match="different keys; name the wanted ones"):
        applied(frame_of([f"k{number}=1" for number in range(1000)]), "| logfmt")


def test_nesting_has_a_bound() -> None:
    deep = 100_000
    (found,) = labels("| json", '{"a":' * deep + "1" + "}" * deep)
    assert found == {
        "__error__": "JSONParserErr",
        "__error_details__": "more than 128 objects within objects",
    }
    (found,) = labels("| json", '{"a":' * 100 + "1" + "}" * 100)
    assert found == {"_".join("a" * 100): "1"}


def test_a_line_of_a_megabyte() -> None:
    long = "x" * (1 << 20)
    assert labels("| json", json.dumps({"a": long, "b": 1}))[0]["b"] == "1"
    assert labels("| logfmt", f"a={long} b=1")[0]["b"] == "1"
    assert passing("|= `xy`", long + "y") == [long + "y"]
    assert passing("|~ `(x+x+)+y`", long) == []


def test_no_lines_at_all() -> None:
    query = (
        "| json | logfmt | regexp `(?P<a>.)` | pattern `<a> <b>` | unpack | decolorize "
        '| a > 1 or a = ip("::1") | json x="y" | logfmt z="q" | drop a |= "x" |> "<_>"'
    )
    assert applied(frame_of([]), query).count == 0


def test_slices_of_longer_arrays() -> None:
    frame = frame_of(["a=0", "a=1", "a=2", "a=3"])
    part = frame.take(frame.tsns[1:3]).with_line(frame.line.slice(1, 2))
    assert [found["a"] for found in labels_of(applied(part, "| logfmt")).values()] == ["1", "2"]


def test_templates_that_need_python_are_named() -> None:
    stages = parse('{a="b"} | line_format "{{.a}} {{.b | upper}}" | label_format c="{{.d}}" | json').stages
    assert pipeline.fallbacks(stages) == ["line_format: Python per distinct input of the template"]

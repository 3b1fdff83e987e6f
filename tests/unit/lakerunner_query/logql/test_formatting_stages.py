"""`line_format` and `label_format` over frames, as a real Loki does them."""

from __future__ import annotations

from lakerunner_query.logql import pipeline
from lakerunner_query.logql.frame import Category, LogFrame
from lakerunner_query.logql.lang.parser import parse
from lakerunner_query.logql.pipeline import Demand
from tests.support.query.logql.template_frames import NOW_NS, frame_of, texts_of

BAD = "{{upper 1}}"
SAID = 'template: {}:1:8: executing "{}" at <1>: expected string; found 1'


def ran(frame: LogFrame, stages: str) -> LogFrame:
    return pipeline.apply(frame, parse('{app="x"} ' + stages).stages, Demand(None), NOW_NS)


def labels(stages: str, **given: str) -> dict[str, str]:
    """Of one row."""
    found = ran(frame_of({name: [text] for name, text in given.items()}, ["the line"]), stages)
    row = {name: texts_of(found, name)[0] for name in found.labels}
    return {name: text for name, text in row.items() if text is not None}


def test_a_rename_takes_value_and_place() -> None:
    assert labels("| label_format x=a", a="1", b="2") == {"x": "1", "b": "2"}
    assert labels("| label_format b=a", a="1", b="2") == {"b": "1"}
    assert labels("| label_format a=b, b=a", a="1", b="2") == {"b": "2"}
    assert labels("| label_format x=nope", a="1") == {"a": "1"}
    assert labels("| label_format a=a", a="1", b="2") == {"b": "2"}


def test_a_rename_only_in_rows_that_have_the_source() -> None:
    frame = frame_of({"a": ["1", None, "3"], "b": ["x", "y", None]})
    found = ran(frame, "| label_format b=a")
    assert texts_of(found, "b") == ["1", "y", "3"]
    assert texts_of(found, "a") == [None, None, None]


def test_what_is_formatted_counts_as_parsed() -> None:
    found = ran(frame_of({"a": ["1"], "b": ["2"]}), '| label_format x=a, b="z"')
    for name in ("x", "b"):
        category = found.labels[name].category
        assert (category if isinstance(category, Category) else category[0]) == Category.PARSED


def test_templates_see_the_labels_before_the_first_template() -> None:
    assert labels('| label_format x="{{.a}}", y="[{{.x}}]"', a="1") == {"a": "1", "x": "1", "y": "[]"}
    assert labels('| label_format x=a, y="[{{.x}}][{{.a}}]"', a="1") == {"x": "1", "y": "[1][]"}
    assert labels('| label_format y="k", x=a, z="[{{.x}}][{{.a}}]"', a="1") == {
        "y": "k",
        "x": "1",
        "z": "[][1]",
    }
    assert labels('| label_format a="{{.n}}", y=a', a="1", n="2") == {"y": "2", "n": "2"}


def test_an_empty_text_is_a_value() -> None:
    assert labels('| label_format x="{{.nope}}"', a="1") == {"a": "1", "x": ""}


def test_an_error_marks_the_row_and_the_rest_goes_on() -> None:
    found = labels(f'| label_format x="{BAD}", y="{{{{.a}}}}"', a="1")
    assert found == {
        "a": "1",
        "y": "1",
        "__error__": "TemplateFormatErr",
        "__error_details__": SAID.format("label", "label"),
    }


def test_a_line_that_fails_stays() -> None:
    frame = frame_of({"a": ["1h", "x"]}, ["one", "two"])
    found = ran(frame, "| line_format `{{duration .a}}`")
    assert found.line.to_pylist() == ["3600", "two"]
    assert texts_of(found, "__error__") == [None, "TemplateFormatErr"]


def test_a_later_error_takes_the_place_of_an_earlier_one() -> None:
    found = labels(f"| json | line_format `{BAD}`", a="1")
    assert found["__error__"] == "TemplateFormatErr"
    assert found["__error_details__"] == SAID.format("line", "line")
    again = labels(f"| line_format `{BAD}` | label_format x=`{BAD}`", a="1")
    assert again["__error_details__"] == SAID.format("label", "label")


def test_errors_are_no_source_of_a_rename() -> None:
    found = labels(f"| line_format `{BAD}` | label_format x=__error__", a="1")
    assert "x" not in found
    assert found["__error__"] == "TemplateFormatErr"


def test_errors_can_be_read() -> None:
    found = labels("| json | label_format x=`{{.__error__}}`")
    assert found["x"] == "JSONParserErr"


def test_lines_follow_one_another() -> None:
    frame = frame_of({"a": ["1"]}, ["l"])
    found = ran(
        frame, "| label_format x=`{{__line__}}` | line_format `{{.x}}-{{.a}}` | line_format `[{{__line__}}]`"
    )
    assert found.line.to_pylist() == ["[l-1]"]


def test_labels_that_only_a_template_reads_are_parsed() -> None:
    frame = frame_of({}, ['{"a":"1","b":"2"}'])
    query = parse('{app="x"} | json | line_format `{{.a | upper}}`')
    found = pipeline.apply(frame, query.stages, Demand(frozenset()), NOW_NS)
    assert found.line.to_pylist() == ["1"]

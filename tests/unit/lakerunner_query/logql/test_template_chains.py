"""Chains of functions give what a run of the template gives, failures included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.logql.templates import columns
from lakerunner_query.logql.templates.chains import Computed, Template, compile_template
from lakerunner_query.logql.templates.columns import Rendered, render
from tests.support.query.logql.template_frames import NOW_NS, frame_of

CHAINS = [
    "{{.a | upper}}",
    "{{.a | lower | trunc 2 | title}}",
    '{{.a | replace "a" "b" | trimPrefix "b" | len}}',
    '{{Replace .a "a" "xy" 2}}',
    '{{regexReplaceAll "(a+)(b)?" .a "<$2$1>"}}',
    '{{regexReplaceAll "a*" .a "-"}}',
    '{{regexReplaceAllLiteral "b" .a "$1"}}',
    "{{alignRight 4 .a}}|{{alignLeft 2 .a}}",
    '{{.a | count "a|b"}}{{.a | contains "b"}}',
    "{{.a | urlencode | b64enc}}",
    "{{.a | b64dec}}{{.a | urldecode}}",
    "{{.a | duration}}",
    "{{.a | bytes}}",
    "{{__line__ | substr 1 3}}",
    '{{date "2006-01-02T15:04:05.000" __timestamp__}}{{__timestamp__ | unixEpochMillis}}',
    "{{.missing | upper}}",
    "{{indent 2 .a}}{{nindent 1 .a}}{{repeat 2 .a}}",
    "{{.a | int}}{{.a | float64}}",
]
NO_CHAINS = [
    "{{.a}}",
    "{{upper .a .b}}",
    "{{upper .a | add 1}}",
    '{{.a | printf "%s"}}',
    "{{.a | len | upper}}",
    "{{trunc .a .b}}",
    '{{trunc "x" .a}}',
    "{{__timestamp__ | upper}}",
    '{{date .a "x"}}',
    "{{$x := .a | upper}}",
    "{{(.a | upper)}}",
    '{{.a | replace "x"}}',
    "{{.a.b | upper}}",
]
texts = st.text(alphabet="abAB é%=\n3h2", max_size=6)


def chains_of(template: Template) -> list[Computed]:
    return [piece for piece in template.pieces if isinstance(piece, Computed) and piece.chain]


def outcome(found: Rendered) -> list[str | None]:
    pairs = zip(found.texts.to_pylist(), found.failure, strict=True)
    return [text if code < 0 else found.messages[code] for text, code in pairs]


@pytest.mark.parametrize("text", CHAINS)
def test_chains(text: str) -> None:
    assert chains_of(compile_template(text))


@given(st.lists(texts, min_size=1, max_size=8), st.sampled_from(CHAINS))
def test_same_as_a_run(values: list[str], text: str) -> None:
    template = compile_template(text)
    assert chains_of(template)
    plain = [
        replace(piece, chain=None) if isinstance(piece, Computed) else piece for piece in template.pieces
    ]
    frame = frame_of({"a": values}, values, 1_700_000_000_123_456_789)
    run = render(replace(template, pieces=tuple(plain)), frame, NOW_NS)
    assert outcome(render(template, frame, NOW_NS)) == outcome(run)


@pytest.mark.parametrize("text", NO_CHAINS)
def test_no_chains(text: str) -> None:
    assert chains_of(compile_template(text)) == []


def test_a_chain_does_not_run_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "Execution", None)
    found = render(
        compile_template('{{.a | upper | replace "A" "-"}}'), frame_of({"a": ["abc", "bca"]}), NOW_NS
    )
    assert found.texts.to_pylist() == ["-BC", "BC-"]

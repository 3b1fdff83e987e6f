"""The reader of promqltest scripts, the store they load into, and the comparison of answers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lakerunner_query.histogram.model import Hint, Histogram, buckets_at
from lakerunner_query.promql.series_notation import NotationError, Value, histogram_notation, series_line
from lakerunner_query.syntax import Matcher, MatchOp
from tests.golden.memory_source import MemorySource, OutOfOrderError
from tests.golden.promqltest_compare import MismatchError, Outcome, Row, almost, check
from tests.golden.promqltest_script import Clear, Eval, Load, ScriptError, Times, commands
from tests.golden.promqltest_variants import at_variants
from tests.golden.start_lines import start_line


def numbers(text: str) -> list[float | None]:
    return [value.number for value in series_line(f"x {text}").values]


def hints(text: str) -> list[Hint]:
    loaded = source(f"load 1m\n  x {text}").select([NAMED_X], -1, 10**12).histograms
    assert loaded is not None
    return [one.hint for one in loaded.tolist() if one is not None]


NAMED_X = Matcher("__name__", MatchOp.EQUAL, "x")


def source(text: str) -> MemorySource:
    found = MemorySource()
    for command in commands(text):
        assert isinstance(command, Load)
        found.load(command)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 2.5 -3 1e3", [1.0, 2.5, -3.0, 1000.0]),
        ("1+2x3", [1.0, 3.0, 5.0, 7.0]),
        ("-1-2x1", [-1.0, -3.0]),
        ("7x2", [7.0, 7.0, 7.0]),
        ("0x2", [0.0, 0.0, 0.0]),
        ("1 _ 2 _x2", [1.0, None, 2.0, None, None]),
        ("Inf -Inf +inf", [math.inf, -math.inf, math.inf]),
        ("0.1+0.1x2", [0.1, 0.2, 0.1 + 0.1 + 0.1]),
    ],
)
def test_sequences_of_numbers(text: str, expected: list[float | None]) -> None:
    assert numbers(text) == expected


def test_other_values() -> None:
    values = series_line("x stale NaN stalex1").values
    assert [value.is_stale for value in values] == [True, False, True, True]
    assert math.isnan(values[1].number or 0.0)
    assert series_line("x _").values[0].is_nothing


@pytest.mark.parametrize(
    "text", ["1+2", "x", "1+x3", "{{", "{{sum:}}", "{{colour:red}}", "0x", "1,2", "5--2x2"]
)
def test_nonsense_in_sequences_is_named(text: str) -> None:
    with pytest.raises(NotationError, match="expected"):
        series_line(f"x {text}")


def test_labels() -> None:
    assert series_line('a:b{z="1", y=\'q\\n\', w="",} 1').labels == (
        ("__name__", "a:b"), ("y", "q\n"), ("z", "1"),
    )  # fmt: skip
    assert series_line('{"my.metric", "ä b"="}"} 1').labels == (("__name__", "my.metric"), ("ä b", "}"))
    assert series_line("{} 1").labels == ()
    with pytest.raises(NotationError, match="expected a label at column 3"):
        series_line("x{1} 1")


def test_histograms_in_sequences() -> None:
    line = series_line(
        "x {{schema:1 count:2 sum:-1.5 z_bucket:1 z_bucket_w:0.5 offset:-1 buckets:[1 2]}}+{{count:1}}x2"
    )
    shown = [histogram_notation(value.histogram or Histogram()) for value in line.values]
    assert shown == [
        f"{{{{schema:1 count:{count} sum:-1.5 z_bucket:1 z_bucket_w:0.5 offset:-1 buckets:[1 2]}}}}"
        if count == 2
        else f"{{{{count:{count} sum:-1.5 z_bucket:1 z_bucket_w:0.5 buckets:[3]}}}}"
        for count in (2, 3, 4)
    ]
    fallen = series_line("x {{count:3 buckets:[3]}}-{{count:1 buckets:[1]}}x1").values[1].histogram
    assert fallen is not None
    assert histogram_notation(fallen) == "{{count:2 buckets:[2]}}"
    own = series_line("x {{schema:-53 custom_values:[5 10] buckets:[1] counter_reset_hint:gauge}}x1").values
    assert len(own) == 2
    assert own[0].says_hint
    assert own[0].histogram is not None
    assert (own[0].histogram.bounds, own[0].histogram.hint) == ((5.0, 10.0), Hint.GAUGE)


def test_start_times() -> None:
    line = start_line('x{a="b"}@st _ -1m 0-1mx2 _x2 * 1ms')
    assert line.labels == (("__name__", "x"), ("a", "b"))
    assert line.offsets_ms == (None, -60_000, 0, -60_000, -120_000, None, None, -120_000, 1)
    loaded = source("load 1m\n  x@st _ -30s\n  x 1 2").select([NAMED_X], -1, 10**6)
    assert loaded.start_ms is not None
    assert loaded.start_ms.tolist() == [0, 30_000]
    default = source("load 1m\n  @st -1s _\n  x 1 2 3").select([NAMED_X], -1, 10**6)
    assert default.start_ms is not None
    assert default.start_ms.tolist() == [-1000, 0, 119_000]


SCRIPT = """
# A comment.
load 5m
  x{a="b"} 1 2

clear
eval instant at 1m x
  expect warn msg: some text
  expect no_info
  x{a="b"} 1
# This ends the block.
eval range from 0 to 10m step 5m -1
  {} -1 -1 -1

eval instant at 0 0x10
  16

eval instant at 0 "a"
  expect string `b"`

eval_fail instant at 50m x[1m]

eval instant at 1m x[5m]
  expect range vector from 0 to 5m step 5m
  x{a="b"} 1 2
"""


def test_scripts() -> None:
    found = commands(SCRIPT)
    assert [type(one) for one in found] == [Load, Clear, *[Eval] * 6]
    load, _, warned, over, scalar, string, failing, ranged = found
    assert isinstance(load, Load)
    assert (load.step_ms, load.series[0].labels) == (300_000, (("__name__", "x"), ("a", "b")))
    assert isinstance(warned, Eval)
    assert warned.words["warn"][0].fits("some text")
    assert not warned.words["warn"][0].fits("some text more")
    assert set(warned.words) == {"warn", "no_info"}
    assert isinstance(over, Eval)
    assert (over.times, over.is_range, over.text) == (Times(0, 600_000, 300_000), True, "-1")
    assert isinstance(scalar, Eval)
    assert scalar.number == 16.0
    assert isinstance(string, Eval)
    assert string.string == 'b"'
    assert isinstance(failing, Eval)
    assert failing.words["fail"][0].fits("anything")
    assert isinstance(ranged, Eval)
    assert (ranged.line, ranged.range_vector) == (23, Times(0, 300_000, 300_000))


@pytest.mark.parametrize(
    "text", ["lode 5m", "load x", "eval instant at 5 x", "eval instant at 1m x\n  expect pain"]
)
def test_nonsense_in_scripts_is_named(text: str) -> None:
    with pytest.raises(ScriptError, match=r"line 1: .*expected"):
        commands(text)


def test_selecting_from_memory() -> None:
    loaded = source('load 1m\n  x{a="2"} 1 _ 3\n  x{a="1"} 4 5\n  y 6')
    found = loaded.select([NAMED_X], 0, 120_000)
    assert [dict(labels)["a"] for labels in found.labels] == ["1", "2"]
    assert found.offsets.tolist() == [0, 1, 2]
    assert (found.time_ms.tolist(), found.value.tolist()) == ([60_000, 120_000], [5.0, 3.0])
    either = loaded.select([Matcher("a", MatchOp.NOT_REGEX, "2|3")], -1, 0)
    assert [dict(labels)["__name__"] for labels in either.labels] == ["x", "y"]
    with pytest.raises(OutOfOrderError):
        loaded.load(commands("load 1m\n  y 1")[0])  # type: ignore[arg-type]


def test_hints_are_those_of_chunks() -> None:
    counter = "{{count:2 buckets:[2]}}"
    assert hints(f"{counter}x2") == [Hint.UNKNOWN, Hint.NO_RESET, Hint.NO_RESET]
    assert hints(f"{counter} {{{{count:1 buckets:[1]}}}}x1") == [Hint.UNKNOWN, Hint.UNKNOWN, Hint.NO_RESET]
    assert hints(f"{counter} 1 {counter}") == [Hint.UNKNOWN, Hint.UNKNOWN]
    assert hints(f"{counter} stale {counter}") == [Hint.UNKNOWN, Hint.UNKNOWN]
    assert hints(f"{counter} {{{{schema:1 count:2 buckets:[2]}}}}") == [Hint.UNKNOWN, Hint.UNKNOWN]
    gauge = "{{count:2 buckets:[2] counter_reset_hint:gauge}}"
    assert hints(f"{gauge}x1 {counter}") == [Hint.GAUGE, Hint.GAUGE, Hint.UNKNOWN]
    told = "{{count:2 buckets:[2] counter_reset_hint:reset}}"
    assert hints(f"{counter} {told}") == [Hint.UNKNOWN, Hint.UNKNOWN]


def test_classic_series_with_custom_buckets() -> None:
    loaded = source(
        'load_with_nhcb 1m\n  x_bucket{le="1",a="b"} 2 3\n  x_bucket{le="+Inf",a="b"} 5 7\n'
        '  x_sum{a="b"} 4 6\n  z 1'
    )
    found = loaded.select([NAMED_X], -1, 10**6)
    assert found.labels == [(("__name__", "x"), ("a", "b"))]
    assert found.histograms is not None
    assert [histogram_notation(one.with_hint(Hint.UNKNOWN)) for one in found.histograms] == [
        "{{schema:-53 count:5 sum:4 custom_values:[1] buckets:[2 3]}}",
        "{{schema:-53 count:7 sum:6 custom_values:[1] buckets:[3 4]}}",
    ]


X = (("__name__", "x"),)
ONE = Histogram(0, 4.0, 5.0, positive=buckets_at(0, [1.0, 2.0]))


def expected(text: str) -> Eval:
    found = commands("eval instant at 0 x\n" + text)[0]
    assert isinstance(found, Eval)
    return found


def answer(*points: float | Histogram) -> Outcome:
    return Outcome(
        tuple(Row((("__name__", name),), ((0, one),)) for name, one in zip("xyz", points, strict=False))
    )


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("x 1", answer(1.0000001)),
        ("y 2\nx 1", answer(1.0, 2.0)),
        ("x {{count:4 sum:5 buckets:[1 2 0]}}", answer(ONE)),
        ("x {{count:4 sum:5 buckets:[1 2]}}", answer(ONE.with_hint(Hint.GAUGE))),
        ("x NaN", answer(math.nan)),
        ("3", Outcome(scalar=3.0)),
        ("", Outcome()),
        ("expect fail msg: no", Outcome(failure="no")),
        ("expect fail regex: n.", Outcome(failure="a nope")),
        ("expect info regex: f.o\nx 1", Outcome(answer(1.0).rows, infos=("PromQL foo",))),
        ("x 1", Outcome(answer(1.0).rows, infos=("any",), warnings=("any",))),
        ('expect string "s"', Outcome(string="s")),
    ],
)
def test_answers_that_fit(text: str, outcome: Outcome) -> None:
    check(expected(text), outcome, Times(0, 0, 0))


@pytest.mark.parametrize(
    ("text", "outcome", "problem"),
    [
        ("x 1", answer(1.00001), "expected 1.0"),
        ("x 0", answer(1e-300), "expected 0.0"),
        ("x 1", answer(1.0, 2.0), "unexpected series"),
        ("x 1\ny 2", answer(1.0), "missing series"),
        ("x 1", answer(ONE), "expected a float"),
        ("x {{count:4 sum:5 buckets:[1 2]}}", answer(1.0), "expected {{"),
        ("x {{count:4 sum:5 buckets:[1 2 1]}}", answer(ONE), "expected {{"),
        ("x {{count:4 sum:5 offset:1 buckets:[1 2]}}", answer(ONE), "expected {{"),
        ("x {{count:4 sum:5 buckets:[1 2] counter_reset_hint:gauge}}", answer(ONE), "expected {{"),
        ("3", Outcome(scalar=3.1), "expected 3.0"),
        ("3", answer(3.0), "expected the scalar"),
        ("expect ordered\ny 2\nx 1", answer(1.0, 2.0), "at place 1, expected 2"),
        ("expect fail", answer(1.0), "an answer, expected an error"),
        ("expect fail msg: no", Outcome(failure="no!"), "expected no"),
        ("x 1", Outcome(failure="boom"), "error: boom"),
        ("expect warn\nx 1", answer(1.0), "warn"),
        ("expect warn msg: a\nx 1", Outcome(answer(1.0).rows, warnings=("a", "b")), "unexpected warn 'b'"),
        ("expect no_info\nx 1", Outcome(answer(1.0).rows, infos=("a",)), "unexpected info"),
        ('expect string "s"', Outcome(string="t"), "expected 's'"),
    ],
)
def test_answers_that_do_not_fit(text: str, outcome: Outcome, problem: str) -> None:
    with pytest.raises(MismatchError) as found:
        check(expected(text), outcome, Times(0, 0, 0))
    assert problem in str(found.value)


def test_range_answers() -> None:
    command = commands("eval range from 0 to 10s step 5s x\n  x 1 _ 3")[0]
    assert isinstance(command, Eval)
    check(command, Outcome((Row(X, ((0, 1.0), (10_000, 3.0))),), True), command.times)
    with pytest.raises(MismatchError, match="has points at"):
        check(command, Outcome((Row(X, ((0, 1.0), (5_000, 3.0))),), True), command.times)
    unsorted = Outcome((Row((("a", "b"),), ((0, 1.0),)), Row(X, ((0, 1.0),))), True)
    with pytest.raises(MismatchError, match="not sorted"):
        check(command, unsorted, command.times)


def test_one_step_of_a_range() -> None:
    outcome = Outcome((Row(X, ((0, 1.0), (60_000, 2.0))), Row((("y", "z"),), ((0, 5.0),))), True)
    assert outcome.at(60_000, is_scalar=False) == Outcome((Row(X, ((60_000, 2.0),)),))
    assert outcome.at(60_000, is_scalar=True).scalar == 2.0


def test_nearly_equal() -> None:
    assert almost(0.0, 0.0)
    assert not almost(math.inf, 1e308)
    assert almost(-1e300, -1.0000005e300)
    assert not almost(math.nan, 0.0)


def test_pinned_variants() -> None:
    texts = {text for text, _ in at_variants("rate(x[5m]) + sum_over_time(y[10m:1m])", 60_000)}
    assert texts == {"rate(x[5m] @ 60.000) + sum_over_time(y[10m:1m] @ 60.000)"}
    assert [time_ms for _, time_ms in at_variants("x", 60_000)] == [-600_000, 0, 12_000, 60_000, 600_000]
    assert at_variants("x @ 5", 0)[0] == ("x @ 5.000", -1000)
    assert at_variants("time() - x", 60_000) == []
    assert at_variants("x +", 60_000) == []


def test_values_know_when_they_are_nothing() -> None:
    assert Value().is_nothing
    assert not Value(0.0).is_nothing
    assert not Value(histogram=ONE).is_nothing


def test_the_runner_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.golden import promqltest

    script = tmp_path / "small.test"
    script.write_text("load 1m\n  x 1 2\n\neval instant at 1m x\n  x 2\n\neval instant at 1m x\n  x 3\n")
    monkeypatch.setattr(
        "sys.argv", ["promqltest", str(tmp_path), "--verbose", "--json", str(tmp_path / "out")]
    )
    assert promqltest.main() == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "small.test: 1/2"
    assert shown[-1] == "passed 1/2"
    assert "expected 3.0" in shown[2]
    assert '"line": 7' in (tmp_path / "out").read_text()

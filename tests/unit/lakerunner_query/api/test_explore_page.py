"""The Explore page as a browser gets it: complete, its own, and with nothing a log line could run in.

What it asks is put to the real application over an empty lake; what it computes runs in `node`, if that is
there.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from lakerunner_query.api.lakerunner.events import Progress, _done
from lakerunner_query.api.lakerunner.params import AlignedRequest
from lakerunner_query.api.shared import health
from lakerunner_query.app import create_app
from lakerunner_query.coordinator.promql import PromQLRequest
from lakerunner_query.lakeql import whitelist
from lakerunner_query.logql.lang import lexer
from lakerunner_query.logql.lang.ast import LabelFilter, LabelMatch, LogQuery
from lakerunner_query.logql.lang.parser import parse_expr
from lakerunner_query.plan.lakeql import LakeQLRequest, plan_lakeql
from lakerunner_query.promql.lang.functions import AGGREGATIONS, FUNCTIONS
from lakerunner_query.promql.lang.parser import parse, parse_selector
from lakerunner_query.syntax import Matcher, MatchOp
from lakerunner_query.traceql.lang.ast import AggregateOp
from lakerunner_query.traceql.lang.functions import METRICS_FUNCTIONS, RANKINGS
from lakerunner_query.traceql.lang.lexer import KINDS, STATUSES
from lakerunner_query.traceql.lang.parser import parse as parse_traceql
from resources.index.memory import MemoryIndex
from resources.settings import Settings
from tests.support.patience import PATIENCE_S

STATIC = Path(health.__file__).parent.parent / "static"
SCRIPTS = sorted(path.name for path in STATIC.glob("*.js"))
SINKS = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
IMPORTS = re.compile(r'from "([^"]+)"')
NAMESPACE = "http://www.w3.org/2000/svg"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
KEY = {"x-cardinalhq-api-key": "key-acme"}
LAST_HOUR = {"s": "e-1h", "e": "now"}
HOSTILE = "a\"\\b'\n<b>{}"
Computed = Callable[[str, str], Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[TestClient[Any]]:
    with TestClient(Litestar([health.page, health.asset])) as client:
        yield client


@pytest.fixture(scope="module")
def api() -> Iterator[TestClient[Any]]:
    """The whole application over an empty lake."""
    index = MemoryIndex()
    index.create_organisation("acme")
    index.create_api_key("acme", "read", "k", hashlib.sha256(b"key-acme").digest(), None)
    settings = Settings(internal_token="t", worker_urls="http://127.0.0.1:1")
    with TestClient(create_app(settings, index)) as client:
        yield client


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """`computed("scales.js", "m.niceStep(10, 5)")`, in node; NaN and infinities become null."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "package.json").write_text('{"type": "module"}')
    for name in SCRIPTS:
        shutil.copy(STATIC / name, folder)

    def run(module: str, expression: str) -> Any:
        code = f'import * as m from "./{module}"; console.log(JSON.stringify({expression}));'
        command = [str(NODE), "--input-type=module", "-e", code]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_every_file_the_page_names_is_served_with_its_type(browser: TestClient[Any]) -> None:
    page = browser.get("/")
    assert page.headers["content-type"].startswith("text/html")
    named = set(re.findall(r'(?:src|href)="(/explore/[^"]+)"', page.text))
    named |= {
        f"/explore/{name.removeprefix('./')}" for file in SCRIPTS for name in IMPORTS.findall(text(file))
    }
    assert {f"/explore/{name}" for name in SCRIPTS} <= named
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    for url in named:
        found = browser.get(url)
        assert found.status_code == 200, url
        assert found.headers["content-type"].startswith(kinds[Path(url).suffix])


def test_the_headers_leave_a_hostile_line_nothing_to_run_in(browser: TestClient[Any]) -> None:
    for url in ("/", "/explore/explore.js"):
        headers = browser.get(url).headers
        policy = dict(
            part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_no_inline_script_style_or_handler(browser: TestClient[Any]) -> None:
    page = browser.get("/").text
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, re.DOTALL)
    assert all("src=" in attributes and not body.strip() for attributes, body in scripts)
    assert scripts
    assert not re.search(r"<style|\sstyle=|\son[a-z]+\s*=|javascript:", page)


@pytest.mark.parametrize("name", [path.name for path in sorted(STATIC.iterdir())])
def test_nothing_comes_from_elsewhere(name: str) -> None:
    content = text(name).replace(NAMESPACE, "")
    assert not re.search(r"https?://|[\"'(]//|@import|url\(", content)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_build_text_and_never_markup(name: str) -> None:
    assert not SINKS.search(text(name))
    assert len(text(name).splitlines()) <= 150


def test_the_key_ends_with_the_tab() -> None:
    """Statements outlive it, in a file that knows no key."""
    assert [name for name in SCRIPTS if "localStorage" in text(name)] == ["past.js"]
    assert not re.search(r"\bkey\b", re.sub(r"//.*", "", text("past.js")))
    assert not any("cookie" in text(name) for name in SCRIPTS)


@pytest.mark.parametrize("name", ["nothing.js", "..%2fexplore.py", "%2e%2e%2fapp.py", "__init__.py"])
def test_only_its_own_files(browser: TestClient[Any], name: str) -> None:
    assert browser.get(f"/explore/{name}").status_code == 404


def test_every_element_the_scripts_name_exists() -> None:
    page = text("index.html")
    identifiers = re.findall(r'\sid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    named = {name for file in SCRIPTS for name in re.findall(r'\$\("([^"]+)"\)', text(file))}
    assert named <= set(identifiers)
    views = ("logs", "metrics", "traces", "map", "alerts", "sql")
    assert {f"view-{name}" for name in views} <= set(identifiers)


def test_every_control_has_a_name() -> None:
    page = re.sub(r"<label.*?</label>", "", text("index.html"), flags=re.DOTALL)
    assert not re.search(r"<(input|select)\b", page)  # those stand inside their labels
    areas = re.findall(r"<(?:textarea|ul id=\"suggestions\"|section id=\"chart\")[^>]*>", page)
    assert len(areas) == 3
    assert all("aria-label=" in area for area in areas)


def test_both_themes_define_every_colour() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", text("explore.css"), re.DOTALL)
    other = {"--level", "--hue", "--mono", "--longest", "--edge", "--share", "--done", "--depth"}
    more = text("sql.css") + text("map.css") + text("alerts.css") + text("traces.css")
    used = set(re.findall(r"var\((--[\w-]+)[,)]", text("explore.css") + more)) - other
    assert not re.search(r"#[0-9a-f]{6}\b", more)
    assert len([name for name in used if name.startswith("--hue-")]) == 10
    for theme in (light, dark):
        assert used <= set(re.findall(r"(--[\w-]+):", theme))


def test_what_the_page_asks_about_metrics_is_answered(api: TestClient[Any]) -> None:
    names = {**LAST_HOUR, "limit": 10_000}
    for path, body, field in [
        ("tagvalues", {"tag": "__name__"}, "values"),
        ("tagvalues", {"tag": "job", "metric": "up"}, "values"),
        ("tags", {"metric": "a.b"}, "tags"),
        ("metadata", {}, "metrics"),
    ]:
        assert api.post(f"/api/v1/metrics/{path}", json={**names, **body}, headers=KEY).json()[field] == []
    asked = {"q": "up", **LAST_HOUR, "step": "1m"}
    assert api.post("/api/v1/metrics/explain", json=asked, headers=KEY).text.startswith("query: up\n")


def test_the_queries_of_the_page_reach_the_workers(api: TestClient[Any]) -> None:
    """There are none here: that is all that is wrong with these requests."""
    asked = {"q": "up", **LAST_HOUR, "step": "1m", "limit": 200}
    said = api.post("/api/v1/metrics/query", json=asked, headers=KEY).text
    assert '"code":"worker_unavailable"' in said
    form = {"query": "up", "limit": "1000", "time": "1795000025.791"}
    answer = api.post("/prometheus/api/v1/query", data=form, headers=KEY)
    assert answer.json()["errorType"] == "unavailable"


def test_the_end_of_an_answer_has_what_the_page_reads() -> None:
    done = _done(
        Progress(limit=0, has_summary=False), AlignedRequest(PromQLRequest("acme", 0, 60_000, 60_000)), "up"
    )
    used = {
        name
        for file in ("samples.js", "metrics.js", "logs.js", "summary.js")
        for name in re.findall(r"\bdone\.(\w+)", text(file))
    }
    assert used == {"s", "e", "step", "status", "truncated", "warnings", "infos", "missing"}
    assert used | {"points", "stats"} <= done.keys()


def test_a_wrong_query_has_a_place_in_both_shapes(api: TestClient[Any]) -> None:
    drawn = api.post("/api/v1/metrics/query", json={"q": "sum(up", **LAST_HOUR}, headers=KEY).json()
    listed = api.post("/api/v1/promql/validate", json={"q": "sum(up"}, headers=KEY).json()["error"]
    assert drawn["position"] == listed["position"] == {"line": 1, "column": 7}


def test_suggested_words_are_the_languages() -> None:
    functions, aggregations = (
        re.search(rf"{name} = [`\"](.*?)[`\"]", text("complete.js"), re.DOTALL)
        for name in ("FUNCTIONS", "AGGREGATIONS")
    )
    assert functions
    assert aggregations
    assert functions[1].split() == sorted(FUNCTIONS)
    assert aggregations[1].split() == sorted(AGGREGATIONS)


def test_what_the_page_asks_about_logs_is_answered(api: TestClient[Any]) -> None:
    names = {**LAST_HOUR, "limit": 10_000}
    assert api.post("/api/v1/logs/tags", json=names, headers=KEY).json()["tags"] == []
    values = api.post("/api/v1/logs/tagvalues", json={**names, "tag": "app"}, headers=KEY).json()
    assert values["values"] == []
    lines = {"q": '{a="b"}', **LAST_HOUR, "limit": 500, "reverse": True}
    assert '"status":"complete"' in api.post("/api/v1/logs/query", json=lines, headers=KEY).text
    samples = {"q": "vector(1)", **LAST_HOUR, "step": "1m", "limit": 200}
    assert '"code":"worker_unavailable"' in api.post("/api/v1/logs/query", json=samples, headers=KEY).text
    for body in (lines, {"q": samples["q"], **LAST_HOUR, "step": "1m"}):
        assert api.post("/api/v1/logs/explain", json=body, headers=KEY).status_code == 200
    form = {"query": "vector(1)", "limit": "1000", "time": "1795000025.791"}
    answer = api.post("/loki/api/v1/query", data=form, headers=KEY)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "text/plain; charset=utf-8")


def test_what_gives_lines_is_known_before_it_runs(api: TestClient[Any]) -> None:
    for query, kind in [('{a="b"} | json', "streams"), ('sum(rate({a="b"}[1m]))', "vector"), ("1", "scalar")]:
        found = api.post("/api/v1/logql/validate", json={"q": query}, headers=KEY).json()
        assert (found["valid"], found["type"]) == (True, kind)
    refused = api.post("/api/v1/logql/validate", json={"q": '{a="b"} | '}, headers=KEY).json()
    assert not refused["valid"]
    assert refused["error"]["position"] == {"line": 1, "column": 11}


@needs_node
def test_examples_are_logql() -> None:
    listed = re.search(r"EXAMPLES = \[(.*?)\];", text("logs.js"), re.DOTALL)
    assert listed
    examples = re.findall(r"'([^']+)'", listed[1])
    assert len(examples) == 4
    for query in examples:
        parse_expr(query)


def test_suggested_words_are_those_of_logql() -> None:
    names = {
        name: re.search(rf"{name} = [`\"](.*?)[`\"]", text("logql.js"), re.DOTALL)
        for name in ("STAGES", "LOG_AGGREGATIONS", "LOG_FUNCTIONS")
    }
    found = {name: each[1].split() for name, each in names.items() if each}
    assert found == {
        "STAGES": sorted(lexer.STAGES),
        "LOG_AGGREGATIONS": sorted(lexer.VECTOR_AGGREGATIONS),
        "LOG_FUNCTIONS": sorted({*lexer.RANGE_AGGREGATIONS, "vector", "label_replace"}),
    }


@needs_node
def test_conditions_that_are_added_read_back(computed: Computed) -> None:
    added = json.dumps(["user", "=", HOSTILE])
    queries = ['{a="b"}', '{a="b"} | json # all', '{a="b"}\n| logfmt\n']
    for query, found in zip(
        queries,
        computed("lines.js", f"{json.dumps(queries)}.map((one) => m.filtered(one, ...{added}))"),
        strict=True,
    ):
        expr = parse_expr(found)
        assert isinstance(expr, LogQuery)
        assert len(expr.stages) == len(parse_expr(query).stages) + 1
        assert expr.stages[-1] == LabelFilter(LabelMatch(Matcher("user", MatchOp.EQUAL, HOSTILE)))


@needs_node
def test_what_the_caret_is_at_in_logql(computed: Computed) -> None:
    cases: dict[str, tuple[str, ...] | None] = {
        "{": ("label", "", ""),
        '{app="we': ("value", "we", "", "app"),
        "{app=~`we": ("value", "we", "", "app"),
        '{app="web"} | js': ("metric", "js"),
        '{app="web"} |= "js': None,
        "sum by (lev": ("label", "lev", ""),
        'sum(rate({app="web"} | json | unwr': ("metric", "unwr"),
        'count_over_time({app="web"}[5': None,
    }
    found = computed("complete.js", f"{json.dumps(list(cases))}.map((one) => m.contextAt(one, one.length))")
    for (query, expected), context in zip(cases.items(), found, strict=True):
        fields = ("kind", "prefix", "metric", "label")
        told = None if context is None else tuple(context[name] for name in fields if name in context)
        assert told == expected, query


@needs_node
def test_examples_are_promql(computed: Computed) -> None:
    listed = re.search(r"EXAMPLES = (\[.*?\]);", text("metrics.js"), re.DOTALL)
    assert listed
    types = [("a.b", "gauge"), ("hits", "counter"), ("wait", "histogram"), ("native", "histogram")]
    facts = [{"name": name, "type": kind} for name, kind in types]
    made = f'{json.dumps(facts)}.map((one) => m.exampleFor(one, new Set(["wait_bucket"])))'
    found = computed("complete.js", f"[...{listed[1]}, ...{made}]")
    assert found[-4:] == [
        '{"a.b"}',
        "sum(rate(hits[5m]))",
        "histogram_quantile(0.95, sum by (le) (rate(wait_bucket[5m])))",
        "histogram_quantile(0.95, sum(rate(native[5m])))",
    ]
    for query in found:
        parse(query)


@needs_node
@pytest.mark.parametrize(
    ("least", "greatest", "ticks"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (3, 97, [0, 20, 40, 60, 80, 100]),
        (0.1, 0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (100, 104, [100, 101, 102, 103, 104]),
        (-10, -1, [-10, -8, -6, -4, -2, 0]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-1e308, 1e308, [-1e308, 1e308]),
    ],
)
def test_ticks_of_values(computed: Computed, least: float, greatest: float, ticks: list[float]) -> None:
    assert computed("scales.js", f"m.valueScale({least}, {greatest}).ticks") == ticks


@needs_node
def test_ticks_enclose_any_values_and_are_few(computed: Computed) -> None:
    chance = random.Random(7)
    ends = [sorted(chance.choice((-1, 1)) * 10 ** chance.uniform(-12, 14) for _ in "ab") for _ in range(500)]
    ends += [[one, one] for one, _ in ends]
    for (least, greatest), ticks in zip(
        ends,
        computed("scales.js", f"{json.dumps(ends)}.map(([a, b]) => m.valueScale(a, b).ticks)"),
        strict=True,
    ):
        assert ticks == sorted(set(ticks))
        assert 2 <= len(ticks) <= 9
        slack = 1e-9 * max(abs(least), abs(greatest))
        assert ticks[0] <= least + slack
        assert ticks[-1] >= greatest - slack


@needs_node
def test_ticks_of_time_stand_on_whole_units(computed: Computed) -> None:
    at = "Date.parse('2026-11-18T{}:00Z')"
    label = "(({ step, ticks }) => ticks.map((one) => m.timeLabel(one, step)))"
    hour = computed("scales.js", f"{label}(m.timeScale({at.format('10:03')}, {at.format('11:03')}))")
    assert hour == ["10:10", "10:20", "10:30", "10:40", "10:50", "11:00"]
    night = computed(
        "scales.js", f"{label}(m.timeScale({at.format('22:30')}, {at.format('22:30')} + 5 * 3600000))"
    )
    assert night == ["23:00", "11-19", "01:00", "02:00", "03:00"]
    seconds = computed(
        "scales.js", f"{label}(m.timeScale({at.format('10:00')}, {at.format('10:00')} + 9000, 2))"
    )
    assert seconds == ["10:00:00", "10:00:05"]


@needs_node
def test_labels_of_values_tell_ticks_apart(computed: Computed) -> None:
    asked = [(0, 20, 100), (0.05, 0.05, 0.3), (1.5e6, 5e5, 2e6), (12000, 2000, 20000), (2e-7, 1e-7, 5e-7)]
    labels = computed("scales.js", f"{json.dumps(asked)}.map((one) => m.valueLabel(...one))")
    assert labels == ["0", "0.05", "1.5 M", "12 k", "2e-7"]


@needs_node
def test_values_in_passing_and_durations_are_short(computed: Computed) -> None:
    texts = ["2.0666666666666664", "7556632", "1234567.891", "-0.000012345678", "NaN", "+Inf", "3e+30"]
    found = computed("scales.js", f"{json.dumps(texts)}.map((one) => m.readable(Number(one), one))")
    assert found == ["2.06667", "7556632", "1234568", "-0.0000123457", "NaN", "+Inf", "3e+30"]
    times = [250, 15_000, 60_000, 90_000, 3_600_000, 5_400_000, 172_800_000]
    found = computed("scales.js", f"{times}.map(m.duration)")
    assert found == ["250 ms", "15 s", "1 min", "1.5 min", "1 h", "1.5 h", "2 d"]
    moments = computed("range.js", "[1767225600000, 1767225601500].map(m.moment)")
    assert moments == ["2026-01-01 00:00", "2026-01-01 00:00:01"]


@needs_node
def test_buckets_are_lines_with_bars(computed: Computed) -> None:
    buckets = [
        [0, "0.7071067811865475", "1", "12"], [1, "-2", "-1", "6"], [3, "-0.001", "0.001", "0"],
        [2, "1", "+Inf", "1"],
    ]  # fmt: skip
    assert computed("table.js", f"m.bucketLines({json.dumps(buckets)})").split("\n") == [
        "(0.707107, 1]    12 " + 24 * "▇",
        "[-2, -1)          6 " + 12 * "▇",
        "[-0.001, 0.001]   0",
        "(1, +Inf)         1 ▇▇",
    ]
    assert "▇" not in computed("table.js", 'm.bucketLines([[0, "1", "2", "0"]])')


@needs_node
def test_a_range_vector_begins_the_axis_earlier(computed: Computed) -> None:
    times = "{ start: 1000, end: 2000, step: 100 }"
    for first, start in [(1000, 1000), (1200, 1000), (950, 900), (700, 700)]:
        found = computed("series.js", f"m.spanned([{{ points: [[{first}, 1]] }}], {times})")
        assert found == {"start": start, "end": 2000, "step": 100}
    assert computed("series.js", f"m.spanned([], {times})")["start"] == 1000


@needs_node
def test_what_is_offered_for_a_native_histogram_is_promql(computed: Computed) -> None:
    cases = {
        "latency": "histogram_quantile(0.95, rate(latency[5m]))",
        ' {"a.b", job="x"} ': 'histogram_quantile(0.95, rate({"a.b", job="x"}[5m]))',
        "latency[2m]": "histogram_quantile(0.95, rate(latency[2m]))",
        "sum(rate(latency[5m]))": "histogram_quantile(0.95, sum(rate(latency[5m])))",
        "sum(latency) # all": "histogram_quantile(0.95, sum(latency) # all\n)",
    }
    found = computed("complete.js", f"{json.dumps(list(cases))}.map(m.quantileOf)")
    assert found == list(cases.values())
    assert all(parse(one) for one in found)


@needs_node
def test_blocks_of_a_series_are_one_line_with_gaps(computed: Computed) -> None:
    blocks = [
        {"labels": {"__name__": "up", "job": "b"}, "values": [[10, "1"], [20, "2"]]},
        {"labels": {"__name__": "up", "job": "a"}, "histograms": [[10, {}], [20, {}]]},
        {"labels": {"job": "b", "__name__": "up"}, "values": [[40.5, "NaN"], [50, "3"], [60, "+Inf"]]},
        {"labels": {"__name__": "up", "job": "b"}, "values": [[70, "4"], [80, "5"]]},
    ]
    first, second = computed("series.js", f"m.merged({json.dumps(blocks)})")
    assert (first["name"], first["points"], first["histograms"]) == ('up{job="a"}', [], 2)
    assert second["points"] == [
        [10_000, 1, "1"], [20_000, 2, "2"], [40_500, None, "NaN"], [50_000, 3, "3"], [60_000, None, "+Inf"],
        [70_000, 4, "4"], [80_000, 5, "5"],
    ]  # fmt: skip
    lines = computed("series.js", f"m.stretches(m.merged({json.dumps(blocks)})[1].points, 10000)")
    assert [[time for time, *_ in line] for line in lines] == [[10_000, 20_000], [50_000], [70_000, 80_000]]
    # without NaN between them a missing step alone parts them
    apart = computed("series.js", "m.stretches([[0, 1], [10, 1], [30, 1]], 10)")
    assert apart == [[[0, 1], [10, 1]], [[30, 1]]]


@needs_node
def test_names_of_series_are_selectors(computed: Computed) -> None:
    labels = [{"__name__": "up"}, {"__name__": "a.b", "job": HOSTILE}, {"x.y": "1", "job": "é"}]
    found = computed("series.js", f"{json.dumps(labels)}.map(m.named)")
    for name, expected in zip(found, labels, strict=True):
        assert {one.name: one.value for one in parse_selector(name)} == expected
    assert computed("series.js", "m.named({})") == "{}"


@needs_node
def test_the_highest_are_drawn_in_their_order(computed: Computed) -> None:
    series = [{"key": f"s{value}", "points": [[0, value], [1, -5]]} for value in (3, 9, 1, 7)]
    found = computed("series.js", f"m.highest({json.dumps(series)}, 2)")
    assert [one["key"] for one in found] == ["s9", "s7"]
    # neither emptiness nor infinity is a height
    bare = "['none', []], ['inf', [[0, Infinity]]], ['low', [[0, -9]]]"
    found = computed("series.js", f"m.highest([{bare}].map(([key, points]) => ({{ key, points }})), 1)")
    assert found[0]["key"] == "low"


@needs_node
def test_what_is_under_the_pointer(computed: Computed) -> None:
    times = "{ start: 1000, end: 1095, step: 10 }"
    steps = computed("cursor.js", f"[0, 1014, 1016, 5000].map((ms) => m.nearestStep({times}, ms))")
    assert steps == [1000, 1010, 1020, 1090]
    series = [{"key": str(n), "points": [[0, n, str(n)]]} for n in range(6)] + [
        {"key": "gone", "points": [[5, 1, "1"]]}
    ]
    found = computed("cursor.js", f"m.valuesAt({json.dumps(series)}, 0, 1.2, 3)")
    assert [one["key"] for one, _ in found["rows"]] == ["2", "1", "0"]
    assert (found["nearest"]["key"], found["more"]) == ("1", 3)
    assert computed("cursor.js", f"m.valuesAt({json.dumps(series)}, 7, 0, 3)") == {
        "rows": [],
        "nearest": None,
        "more": 0,
    }


@needs_node
def test_what_the_caret_is_at(computed: Computed) -> None:
    cases: dict[str, tuple[str, ...] | None] = {
        "": ("metric", ""),
        "sum(rate(htt": ("metric", "htt"),
        "up{": ("label", "", "up"),
        'up{job="a", in': ("label", "in", "up"),
        "{": ("label", "", ""),
        "sum by (jo": ("label", "jo", ""),
        "a / on (x, ": ("label", "", ""),
        'up{job="ap': ("value", "ap", "up", "job"),
        "up{job=~'": ("value", "", "up", "job"),
        'up{"x.y"!="1': ("value", "1", "up", "x.y"),
        'up{job="a\\"b': ("value", 'a\\"b', "up", "job"),
        'up{job="a"': None,
        "up{job=": None,
        "rate(up[5": None,
        "up offset 5m": None,
        "up # a comment": None,
        'label_replace(up, "a': None,
        'up{job="a"} + u': ("metric", "u"),
        "max_over_time(up[5m:1m]) > q": ("metric", "q"),
    }
    found = computed("complete.js", f"{json.dumps(list(cases))}.map((one) => m.contextAt(one, one.length))")
    for (query, expected), context in zip(cases.items(), found, strict=True):
        if context is not None:
            fields = ("kind", "prefix", "metric", "label")
            context = tuple(context[name] for name in fields if name in context)  # noqa: PLW2901
        assert context == expected, query


@needs_node
def test_a_taken_suggestion_reads_back(computed: Computed) -> None:
    def taken(query: str, choice: dict[str, Any], rest: str = "") -> str:
        code = f"m.contextAt({json.dumps(query)}, {len(query)}), {json.dumps(choice)}"
        found = computed("complete.js", f"m.completed({json.dumps(query + rest)}, {len(query)}, {code})")
        assert found["text"].endswith(rest.removeprefix('"'))
        return str(found["text"])

    assert taken("sum(ht", {"name": "http_requests_total"}, ")") == "sum(http_requests_total)"
    assert taken("ra", {"name": "rate", "call": True}) == "rate("
    assert taken("sum(ht", {"name": "http.server"}, ")") == 'sum({"http.server"})'
    assert taken("up{j", {"name": "job"}, "}") == 'up{job="}'
    assert taken("up{j", {"name": "job"}, '="a"}') == 'up{job="a"}'
    assert taken("sum by (j", {"name": "x.y"}, ") (up)") == 'sum by ("x.y") (up)'
    for quote in "\"'":
        query = taken(f"up{{job={quote}", {"name": HOSTILE}, f"{quote}}}" if quote == '"' else "}")
        assert {one.name: one.value for one in parse_selector(query)}["job"] == HOSTILE


@needs_node
def test_suggestions_that_begin_with_the_word_come_first(computed: Computed) -> None:
    names = [{"name": name} for name in ("my_rate", "rate", "Rate_limit", "other")]
    found = computed("complete.js", f"m.ranked({json.dumps(names)}, 'rate')")
    assert [one["name"] for one in found] == ["rate", "Rate_limit", "my_rate"]
    assert computed("complete.js", "m.ranked([{ name: 'up' }], 'up')") == []
    assert len(computed("complete.js", "m.ranked(Array(50).fill({ name: 'up' }), 'u')")) == 12


@needs_node
def test_numbers_are_read_as_promql_writes_them(computed: Computed) -> None:
    texts = ["1.5", "1e+21", "-0.25", "NaN", "+Inf", "-Inf"]
    found = computed("series.js", f"{json.dumps(texts)}.map((one) => String(m.number(one)))")
    assert [float(one.replace("Infinity", "inf")) for one in found[:3] + found[4:]] == [
        1.5,
        1e21,
        -0.25,
        math.inf,
        -math.inf,
    ]
    assert found[3] == "NaN"


@needs_node
def test_what_the_caret_is_at_in_sql(computed: Computed) -> None:
    cases: dict[str, dict[str, object] | None] = {
        "SEL": {"kind": "word", "prefix": "SEL", "isFirst": True},
        "SELECT ": {"kind": "word", "prefix": ""},
        "SELECT a FROM ": {"kind": "table", "prefix": ""},
        "SELECT a FROM lo": {"kind": "table", "prefix": "lo"},
        "SELECT a FROM logs, sp": {"kind": "table", "prefix": "sp"},
        "SELECT a FROM logs l JOIN m ON l.a = m.a, sp": {"kind": "table", "prefix": "sp"},
        "SELECT a FROM logs l JOIN sp": {"kind": "table", "prefix": "sp"},
        "SELECT a, b": {"kind": "word", "prefix": "b"},
        "SELECT f(a, b": {"kind": "word", "prefix": "b"},
        "SELECT l.": {"kind": "column", "prefix": "", "qualifier": "l"},
        'SELECT "l x"."http.r': {"kind": "column", "prefix": "http.r", "qualifier": "l x"},
        "SELECT a FROM logs WHERE service_name = 'we": {
            "kind": "value",
            "prefix": "we",
            "column": "service_name",
        },
        "WHERE a NOT IN ('x', 'it''": {"kind": "value", "prefix": "it'", "column": "a"},
        "SELECT 'text": None,
        "SELECT 'text'": None,
        "SELECT a AS b": None,
        "SELECT INTERVAL ": None,
        "SELECT 15": None,
        "SELECT a -- FROM ": None,
        "SELECT a /* FROM */ FROM ": {"kind": "table", "prefix": ""},
        'SELECT "a"': None,
    }
    found = computed("sqltext.js", f"{json.dumps(list(cases))}.map((one) => m.sqlContext(one, one.length))")
    for (query, expected), context in zip(cases.items(), found, strict=True):
        fields = ("kind", "prefix", "qualifier", "column")
        told = context and {name: context[name] for name in fields if name in context}
        told = told and (told | ({"isFirst": True} if context.get("isFirst") else {}))
        assert told == expected, query


@needs_node
def test_what_a_statement_reads_and_what_is_taken(computed: Computed) -> None:
    query = (
        "WITH slow AS (SELECT s.trace_id, max(duration_ns) / 1e9 AS worst FROM spans s GROUP BY 1)"
        " SELECT * FROM logs AS l JOIN slow ON l.trace_id = slow.trace_id, promql('up', '1m') p"
    )
    told = "(({ relations, ctes }) => [[...relations], [...ctes]])"
    relations, ctes = computed("sqltext.js", f"{told}(m.reads({json.dumps(query)}))")
    assert dict(relations) == {"s": "spans", "l": "logs", "slow": "slow", "p": "promql"}
    assert dict(ctes) == {"slow": ["trace_id", "worst"]}

    def taken(text: str, choice: dict[str, str], rest: str = "") -> str:
        code = f"m.sqlContext({json.dumps(text)}, {len(text)}), {json.dumps(choice)}"
        return str(
            computed("sqltext.js", f"m.placed({json.dumps(text + rest)}, {len(text)}, {code})")["text"]
        )

    assert taken("SELECT http", {"name": "http.route"}, " FROM logs") == 'SELECT "http.route" FROM logs'
    assert taken('SELECT "htt', {"name": "order"}) == 'SELECT "order"'
    assert taken("SELECT cou", {"name": "count_if", "put": "count_if("}, "(a)") == "SELECT count_if(a)"
    assert taken("WHERE a = '", {"name": "it's"}, "' AND b") == "WHERE a = 'it''s' AND b"


@needs_node
def test_all_of_a_statement_is_coloured(computed: Computed) -> None:
    query = "SELECT count(*), l.\"order\", 'it''s' -- all\nFROM logs l /* x */ WHERE a >= 1.5e3 AND b = $1 ➜"
    found = computed("sqltext.js", f"m.coloured({json.dumps(query)})")
    assert "".join(one["text"] for one in found) == query
    kinds = {one["text"]: one["kind"] for one in found if one["kind"] != "space"}
    assert kinds == {
        "SELECT": "keyword", "count": "function", "(": "mark", "*": "mark", ")": "mark", ",": "mark",
        "l": "name", ".": "mark", '"order"': "quoted", "'it''s'": "string", "-- all": "comment",
        "FROM": "keyword", "logs": "name", "/* x */": "comment", "WHERE": "keyword", "a": "name",
        ">=": "mark", "1.5e3": "number", "AND": "keyword", "b": "name", "=": "mark",
        "$1": "parameter", "➜": "mark",
    }  # fmt: skip
    spans = [
        ({"line": 1, "column": 8}, "count"),
        ({"line": 2, "column": 6}, "logs"),
        ({"line": 9, "column": 9}, ""),
    ]
    for position, word in spans:
        span = computed("sqltext.js", f"m.spanAt({json.dumps(query)}, {json.dumps(position)})")
        assert query[span["from"] : span["to"]] == word


@needs_node
def test_suggested_words_are_those_of_lakeql(computed: Computed) -> None:
    known = whitelist.FUNCTIONS | whitelist.MACROS
    offered = computed("sqltext.js", "m.FUNCTIONS")
    assert set(offered) <= known
    assert len(offered) > 80
    assert set(computed("sqltext.js", "Object.keys(m.LANGUAGES)")) <= whitelist.LANGUAGE_FUNCTIONS


@needs_node
def test_examples_are_lakeql(computed: Computed) -> None:
    examples = computed("sql.js", 'm.statements("it\'s")')
    assert len(examples) == 4
    assert len(computed("sql.js", "m.statements('')")) == 2
    read = set()
    for _, text_ in examples:
        plan = plan_lakeql(text_, LakeQLRequest("acme", now_ns=10**18))
        read |= {one.table.name for one in plan.tables}
    assert read == {"logs", "metrics", "spans"}


@needs_node
def test_rows_are_sorted_by_what_they_are(computed: Computed) -> None:
    rows = [[2, "b"], [None, "a"], [10, None], [-1, "c"], ["9223372036854775807", "B"]]
    code = f"m.sorted({json.dumps(rows)}"
    assert computed("values.js", f"{code}, 0, 'number', false)") == [3, 0, 2, 4, 1]
    assert computed("values.js", f"{code}, 0, 'number', true)") == [4, 2, 0, 3, 1]
    assert computed("values.js", f"{code}, 1, 'text', false)") == [4, 1, 0, 3, 2]
    types = [
        "timestamp[us]",
        "int64",
        "double",
        "map<string, string>",
        "bool",
        "list<item: string>",
        "string",
    ]
    kinds = computed("values.js", f"{json.dumps(types)}.map(m.kindOf)")
    assert kinds == ["time", "number", "number", "map", "flag", "list", "text"]
    times = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.120000Z", "2026-01-01T00:00:00.000001Z"]
    assert computed("values.js", f"m.digitsIn({json.dumps(times[:1])})") == 0
    assert computed("values.js", f"m.digitsIn({json.dumps(times[:2])})") == 3
    assert computed("values.js", f"m.digitsIn({json.dumps(times)})") == 6
    shown = computed("values.js", f"{json.dumps(times)}.map((one) => m.timeText(one, 'UTC', 3))")
    assert [one[-3:] for one in shown] == ["000", "120", "001"]
    assert computed("values.js", "[5, 1500, 269368, 2.5e9].map(m.sizeText)") == [
        "5 bytes", "1.5 kB", "269 kB", "2.5 GB",
    ]  # fmt: skip


@needs_node
def test_axes_are_found_and_can_be_chosen(computed: Computed) -> None:
    columns = [
        {"name": "minute", "type": "timestamp[us]"}, {"name": "tid", "type": "int64"},
        {"name": "app", "type": "string"}, {"name": "n", "type": "int64"}, {"name": "p", "type": "double"},
    ]  # fmt: skip
    at = "2026-01-01T00:{:02}:00.000000Z"
    rows = [[at.format(n), n, app, n, n / 2] for n in (0, 1, 2, 5) for app in "ab"]
    given = f"{json.dumps(columns)}, {json.dumps(rows)}"
    usual = computed("plot.js", f"m.axes({given})")
    assert (usual["x"], usual["y"], usual["by"], usual["ys"]) == ("minute", "", "app", ["n", "p"])
    chosen = computed("plot.js", f"m.axes({given}, {{ x: 'app', y: 'p', by: '-' }})")
    assert (chosen["x"], chosen["y"], chosen["by"], chosen["overTime"]) == ("app", "p", "", False)
    drawn = computed("plot.js", f"m.linesOf({given}, m.axes({given}))")
    assert [one["key"] for one in drawn["series"]] == ["a · n", "a · p", "b · n", "b · p"]
    assert [point[1] for point in drawn["series"][0]["points"]] == [0, 1, 2, 5]
    assert drawn["times"]["step"] == 60_000
    assert drawn["notes"] == []
    alone = computed("plot.js", f"m.linesOf({given}, m.axes({given}, {{ y: 'n', by: '-' }}))")
    assert [one["key"] for one in alone["series"]] == ["n"]
    assert alone["notes"] == [
        "4 rows share their time with another of the same series: choose a series, or GROUP BY the time."
    ]
    assert computed("plot.js", "[m.stepOf([0, 7, 31]), m.stepOf([5])]") == [None, None]  # Infinity: no gaps
    bars = computed("plot.js", f"m.barsOf({given}, m.axes({given}, {{ x: 'app', by: '-' }}))")
    assert bars["bars"][0] == ["a", [0, 0]]


@needs_node
def test_a_plan_is_read_from_its_text(computed: Computed) -> None:
    text_ = (
        "read 0: logs from 1767225600000000000 to 1767229200000000000, terms 2: "
        "3 segments, 300 rows, 1024 bytes\n"
        "read 1: spans from 1767225600000000000, terms 0: 1 segments, 5 rows, 10 bytes\n"
        "segments of logs: 3 live\n"
        "scan 0, rows: SELECT \"a\" FROM rows AS l WHERE (l.b = 'x\n and y') AND (c > 1 OR d IN (1, 2))\n"
        "  only rows with trace_id among 7 values\n"
        "scan 1, parts: SELECT name AS k0, COUNT(*) AS a0 FROM rows GROUP BY 1 ORDER BY a0 LIMIT 5\n"
        "scans 1 and 0 are joined by trace_id: keys of one narrow the other\n"
        "then: SELECT * FROM scan_0, scan_1, scan_2 AS promql\n"
        "logs has no lower bound\n"
    )
    plan = computed("plan.js", f"m.parsePlan({json.dumps(text_)})")
    assert [(one["number"], one["table"], one.get("bytes")) for one in plan["reads"]] == [
        (0, "logs", 1024), (1, "spans", 10), (2, "promql", None),
    ]  # fmt: skip
    first, second = plan["scans"]
    assert first["keys"] == ["only rows with trace_id among 7 values"]
    assert plan["joins"] == [{"scans": [1, 0], "by": "trace_id"}]
    assert plan["notes"] == ["segments of logs: 3 live", "logs has no lower bound"]
    pushed = computed("plan.js", f"[{json.dumps(first['sql'])}, {json.dumps(second['sql'])}].map(m.clauses)")
    assert pushed[0]["where"] == ["l.b = 'x\n and y'", "c > 1 OR d IN (1, 2)"]
    assert pushed[0]["select"] == ["a"]
    assert (pushed[1]["group"], pushed[1]["order"], pushed[1]["limit"]) == (["name"], "a0", "5")


@needs_node
def test_the_last_fifty_statements_are_kept_once(computed: Computed) -> None:
    kept = [{"text": f"SELECT {n}", "at": n} for n in range(50)]
    found = computed("past.js", f"m.withOne({json.dumps(kept)}, 'SELECT 3', 99)")
    assert [one["text"] for one in found[:3]] == ["SELECT 3", "SELECT 0", "SELECT 1"]
    assert len(found) == 50
    assert len(computed("past.js", f"m.withOne({json.dumps(kept)}, 'SELECT x', 99)")) == 50


def text(name: str) -> str:
    return (STATIC / name).read_text()


@needs_node
def test_callers_stand_left_of_what_they_call_whatever_the_order(computed: Computed) -> None:
    rng = random.Random(3)
    names = [f"s{number}" for number in range(12)]
    edges = [(a, b) for a in range(12) for b in range(a + 1, 12) if rng.random() < 0.25]
    made = [{"from": names[a], "to": names[b]} for a, b in edges]
    places = "Object.fromEntries([...m.layout({0}, {1}).places].map(([name, { x, y }]) => [name, [x, y]]))"

    def placed(listed: list[str], joined: list[dict[str, str]]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = computed(
            "layers.js", places.replace("{0}", json.dumps(listed)).replace("{1}", json.dumps(joined))
        )
        return found

    found = placed(names, made)
    assert all(found[one["from"]][0] < found[one["to"]][0] for one in made)
    assert len({tuple(place) for place in found.values()}) == len(names)
    assert placed(rng.sample(names, 12), rng.sample(made, len(made))) == found


@needs_node
def test_circles_of_calls_have_a_layout(computed: Computed) -> None:
    edges = json.dumps(
        [{"from": a, "to": b} for a, b in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "c"), ("z", "a"))]
    )
    found = computed("layers.js", f'[...m.layout(["a", "b", "c", "z"], {edges}).places.keys()]')
    assert sorted(found) == ["a", "b", "c", "z"]
    assert computed("layers.js", "m.layout([], []).places.size") == 0


def test_suggested_words_are_those_of_traceql() -> None:
    names = {
        name: re.search(rf"{name} = [`\"](.*?)[`\"]", text("tracetext.js"), re.DOTALL)
        for name in ("TRACE_STAGES", "TRACE_FUNCTIONS", "STATUSES", "KINDS")
    }
    found = {name: each[1].split() for name, each in names.items() if each}
    rankings = {*METRICS_FUNCTIONS, *RANKINGS} - {"compare"}
    aggregates = {op.value for op in AggregateOp}
    assert found == {
        "TRACE_STAGES": sorted({"by", "coalesce", "compare", "select", "with", *aggregates}),
        "TRACE_FUNCTIONS": sorted(rankings),
        "STATUSES": sorted(STATUSES),
        "KINDS": sorted(KINDS),
    }


@needs_node
def test_examples_are_traceql() -> None:
    listed = re.search(r"EXAMPLES = \[(.*?)\];", text("traces.js"), re.DOTALL)
    assert listed
    examples = re.findall(r'"([^"]+)"', listed[1])
    assert len(examples) == 5
    for query in examples:
        parse_traceql(query)


@needs_node
def test_what_the_caret_is_at_in_traceql(computed: Computed) -> None:
    cases: dict[str, tuple[str, ...] | None] = {
        "{ ": ("field", ""),
        "{ resource.serv": ("field", "resource.serv"),
        "{ resource.service.name = ": ("value", "", "resource.service.name"),
        '{ resource.service.name = "we': ("value", "we", "resource.service.name"),
        "{ status = er": ("value", "er", "status"),
        "{ a = `x` && .b": ("field", ".b"),
        "{ (span.": ("field", "span."),
        '{ name = "a" ': None,
        "{ duration > 5": None,
        "{} | ra": ("word", "ra"),
        "{} | rate() by (res": ("field", "res"),
        "{} | quantile_over_time(dur": ("field", "dur"),
        "{ status = error } >": ("word", ""),
    }
    found = computed(
        "tracetext.js", f"{json.dumps(list(cases))}.map((one) => m.traceContext(one, one.length))"
    )
    for (query, expected), context in zip(cases.items(), found, strict=True):
        fields = ("kind", "prefix", "field")
        told = None if context is None else tuple(context[name] for name in fields if name in context)
        assert told == expected, query


@needs_node
def test_conditions_on_spans_read_back(computed: Computed) -> None:
    cases = [
        ("span", "http.route", HOSTILE),
        ("resource", 'a "b" {c}', 5),
        ("span", "ok", True),
        ("event", "x", 1.5),
    ]
    found = computed("tracetext.js", f"{json.dumps(cases)}.map((one) => m.having(...one))")
    for (scope, name, value), query in zip(cases, found, strict=True):
        (stage,) = parse_traceql(query).body.stages  # type: ignore[union-attr]
        condition = stage.condition  # type: ignore[union-attr]
        assert (condition.left.name, condition.left.scope.value) == (name, scope)
        assert condition.right.value == value
    assert computed("tracetext.js", 'm.having("span", "a", [1])') is None


@needs_node
@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (800, "800 ns"),
        (1_500_000, "1.5 ms"),
        (-2_000_000_000, "-2 s"),
        (90_000_000_000, "1 min 30 s"),
        (0, "0 ns"),
    ],
)
def test_durations_of_spans_are_short(computed: Computed, ns: int, said: str) -> None:
    assert computed("tracetext.js", f"m.nsText({ns})") == said

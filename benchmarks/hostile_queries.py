"""Queries that were made to hurt, each with the CPU seconds it may take and what has to come of it.

`ANSWER` is an answer of any size; everything else is the code of an error, or codes of which any will do. The
lake is `hostile_lake`: beside usual data it holds names of 5,000 digits, 2,000 series of one metric, histograms
with 100,000 buckets, and lines of a megabyte.
"""

# ruff: noqa: E501 - a query stands on its line
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.small_lake import Times

ANSWER = "answer"
PARSE, LIMIT, EXECUTION, PIPELINE, INVALID = (
    "parse_error",
    "limit_exceeded",
    "execution",
    "pipeline_error",
    "invalid_request",
)
ANY_ERROR = frozenset({PARSE, LIMIT, EXECUTION, PIPELINE, INVALID})
ANYTHING = ANY_ERROR | {ANSWER}
RANGE, AT, LONG = Times(0, 600_000, 60_000), Times(0, 600_000, 0), Times(0, 9_000_000, 1_000)
D = "1" * 5_000
KB64 = 65_000


@dataclass(frozen=True, slots=True)
class Hostile:
    name: str
    language: str
    text: str
    expected: frozenset[str]
    cpu_s: float = 1.0
    at: Times = field(default=RANGE)


def _row(
    language: str, name: str, text: str, expected: object, cpu_s: float = 1.0, at: Times = RANGE
) -> Hostile:
    codes = frozenset({expected}) if isinstance(expected, str) else frozenset(expected)  # type: ignore[call-overload]
    return Hostile(name, language, text, codes, cpu_s, at)


def _p(name: str, text: str, expected: object = ANSWER, cpu_s: float = 1.0, at: Times = RANGE) -> Hostile:
    return _row("promql", name, text, expected, cpu_s, at)


def _l(name: str, text: str, expected: object = ANSWER, cpu_s: float = 1.0, at: Times = RANGE) -> Hostile:
    return _row("logql", name, text, expected, cpu_s, at)


def hostile_queries() -> list[Hostile]:
    parts = (
        *(_promql_texts(), _promql_numbers(), _promql_series(), _promql_histograms(), _promql_trees()),
        *(
            _logql_texts(),
            _logql_regexes(),
            _logql_parsers(),
            _logql_templates(),
            _logql_filters(),
            _logql_metrics(),
        ),
    )
    return [one for part in parts for one in part]


def _promql_texts() -> Iterator[Hostile]:
    yield _p("64 kB of a name", "a" * KB64)
    yield _p("64 kB of parentheses", "(" * KB64, PARSE)
    yield _p("64 kB of closed parentheses", "(" * 30_000 + "1" + ")" * 30_000, PARSE)
    yield _p("64 kB of minus signs", "-" * KB64 + "1", PARSE)
    yield _p("64 kB of spaces", " " * KB64 + "up")
    yield _p("64 kB of comments", "# x\n" * 15_000 + "up")
    yield _p("64 kB of one comment", "#" + "x" * KB64, PARSE)
    yield _p("64 kB of a string", '"' + "x" * KB64 + '"', ANSWER, at=AT)
    yield _p("64 kB of backslashes", '"' + "\\" * KB64, PARSE)
    yield _p("64 kB of escapes", '"' + "\\x41" * 15_000 + '"', ANSWER, at=AT)
    yield _p("64 kB of an unended string", '"' + "x" * KB64, PARSE)
    yield _p("64 kB of NUL", "\0" * KB64, PARSE)
    yield _p("64 kB of lone surrogates", "\udc80" * 20_000, PARSE)
    yield _p("64 kB of emoji", "\U0001f600" * 15_000, PARSE)
    yield _p("64 kB of combining marks in a label", '{"' + "e\u0301" * 15_000 + '"="x"}', ANSWER)
    yield _p("a chain of 8,000 sums", "+".join(["1"] * 8_000), ANYTHING, 2.0)
    yield _p("a chain of 8,000 selectors", "+".join(["up"] * 8_000), ANYTHING, 2.0)
    yield _p("a chain of 400 selectors", "+".join(["up"] * 400), ANSWER, 2.0)
    yield _p("a chain of 480 or", " or ".join(f"up{{n='{n}'}}" for n in range(480)), ANSWER, 4.0)
    yield _p("a chain of powers", "^".join(["2"] * 8_000), ANYTHING, 2.0)
    yield _p("499 parentheses", "(" * 499 + "up" + ")" * 499, ANYTHING)
    yield _p("calls in calls", "abs(" * 400 + "up" + ")" * 400, ANYTHING, 2.0)
    yield _p("calls in calls, too deep", "abs(" * 10_000 + "up" + ")" * 10_000, PARSE)
    yield _p("aggregations in aggregations", "sum(" * 400 + "up" + ")" * 400, ANYTHING, 2.0)
    yield _p("3,000 matchers", "up{" + ",".join(f'l{n}!="x"' for n in range(3_000)) + "}", ANYTHING, 3.0)
    yield _p("6,000 grouping labels", "sum by (" + ",".join(f"l{n}" for n in range(6_000)) + ") (up)", ANSWER)
    yield _p("6,000 labels of on", "up * on (" + ",".join(f"l{n}" for n in range(6_000)) + ") up", ANYTHING)
    yield _p(
        "6,000 labels of group_left",
        "up * on (job) group_left (" + ",".join(f"l{n}" for n in range(6_000)) + ") up",
        ANYTHING,
    )


def _promql_numbers() -> Iterator[Hostile]:
    yield _p("a number of 5,000 digits", D, PARSE)
    yield _p("a number of 60,000 digits", "1" * 60_000, PARSE)
    yield _p("a fraction of 60,000 digits", "0." + "1" * 60_000)
    yield _p("an exponent of 5,000 digits", f"1e{D}", PARSE)
    yield _p("a hexadecimal of 60,000 digits", "0x" + "f" * 60_000, PARSE)
    yield _p("an octal of 60,000 digits", "0" + "7" * 60_000, ANYTHING)
    yield _p("60,000 underscores", "1" + "_1" * 30_000, PARSE)
    yield _p("a duration of 5,000 digits", f"up[{D}s]", PARSE)
    yield _p("a duration of all units", "up[" + "1y1w1d1h1m1s1ms" + "]", ANSWER, at=AT)
    yield _p("a range of 290 years", "rate(temp[290y])")
    yield _p("a range of 300 years", "rate(temp[300y])", PARSE)
    yield _p("an offset of 290 years", "temp offset 290y")
    yield _p("an offset of -290 years", "temp offset -290y")
    yield _p("a time of 9e18 s", "temp @ 9000000000000000", ANYTHING)
    yield _p("a time of 1e300 s", "temp @ 1e300", PARSE)
    yield _p("topk of 9e18", "topk(9e18, temp)")
    yield _p("topk of infinity", "topk(Inf, temp)", EXECUTION)
    yield _p("topk of NaN", "topk(NaN, temp)", EXECUTION)
    yield _p("round to the least number", "round(temp, 5e-324)")
    yield _p("a power of infinity", "(temp ^ 1e308) ^ 1e308")
    yield _p("the year of the largest number", "year(vector(1.7e308))")
    yield _p("a trim of two numbers", "2 </ 3", EXECUTION)
    yield _p("a trim by a histogram", "2 >/ size", ANSWER)
    yield _p("a duration that divides by zero", "temp[5m/0]", PARSE)
    yield _p("a duration of 5,000 powers", "rate(temp[" + "2^" * 5_000 + "2])", PARSE, 2.0)
    yield _p("a duration of 5,000 parentheses", "rate(temp[" + "(" * 5_000 + "5m" + ")" * 5_000 + "])", PARSE)
    yield _p(
        "smoothing with factors out of range", "double_exponential_smoothing(temp[5m], 2, -1)", EXECUTION
    )
    yield _p("a prediction to the end of time", "predict_linear(temp[5m], 1e308)")


def _promql_series() -> Iterator[Hostile]:
    yield _p("labels of 5,000 digits, sorted", 'sort_by_label(digits, "d")', ANSWER, at=AT)
    yield _p("labels of 5,000 digits, descending", 'sort_by_label_desc(digits, "d", "d", "d")', ANSWER, at=AT)
    yield _p(
        "all series sorted by 3,000 labels", "sort_by_label(many" + ', "x"' * 3_000 + ")", ANYTHING, 8.0, AT
    )
    yield _p("2,000 series on 2,000 series", "many * on () many", ANYTHING, 2.0)
    yield _p("2,000 series on one with group_left", "many * on () group_left () vector(1)", ANSWER, 2.0)
    yield _p("every series with every one", "many and on () many", ANSWER, 2.0)
    yield _p("11,000 steps of 2,000 series", "many", ANSWER, 12.0, Times(0, 10_900_000, 1_000))
    yield _p("a subquery of a millisecond", "max_over_time(temp[2h:1ms])", ANYTHING, 4.0)
    yield _p("a subquery of a second over years", "max_over_time(temp[5y:1s])", LIMIT, 3.0)
    yield _p(
        "subqueries in subqueries",
        "max_over_time(max_over_time(max_over_time(temp[1h:1s])[1h:1s])[1h:1s])",
        ANYTHING,
        12.0,
    )
    yield _p("eight subqueries deep", "max_over_time(" * 8 + "temp" + "[30m:1m])" * 8, ANYTHING, 4.0)
    yield _p("forty subqueries deep", "max_over_time(" * 40 + "temp" + "[1y:1h])" * 40, ANYTHING, 8.0)
    yield _p("absent of all", 'absent({__name__=~".+"})', ANSWER, 3.0)
    yield _p(
        "absent with 3,000 labels",
        "absent(nope{" + ",".join(f'l{n}="x"' for n in range(3_000)) + "})",
        ANYTHING,
        3.0,
    )
    yield _p("all there is", '{__name__=~".+"}', ANYTHING, 6.0)
    yield _p("all there is, counted by value", 'count_values("v", {__name__=~".+"})', ANYTHING, 8.0)
    yield _p("values as labels over steps", 'count_values("v", many)', ANSWER, 3.0)
    yield _p(
        "a regex of 5,000 names",
        '{__name__=~"' + "|".join(f"n{n}" for n in range(5_000)) + '"}',
        ANYTHING,
        2.0,
    )
    yield _p("a regex that backtracks", '{job=~"(a+)+$", n=~"(x*)*y"}', ANYTHING)
    yield _p("a regex of nested repeats", '{job=~"((a{1,30}){1,30}){1,30}"}', ANYTHING, 2.0)
    yield _p("a regex of 1,000 groups", '{job=~"' + "(a?)" * 1_000 + '"}', ANYTHING, 2.0)
    yield _p("a regex of 10,000 parentheses", '{job=~"' + "(" * 10_000 + ")" * 10_000 + '"}', ANYTHING, 2.0)
    yield _p("a regex of 60 kB of dots", '{job=~"' + ".*" * 30_000 + '"}', ANYTHING, 2.0)
    yield _p(
        "label_replace that grows",
        'label_replace(temp, "a", "' + "$1" * 10_000 + '", "job", "(.*)")',
        ANSWER,
        2.0,
    )
    yield _p(
        "label_replace of 2,000 series that grows",
        'label_replace(many, "a", "' + "$1" * 10_000 + '", "__name__", "(.*)")',
        ANYTHING,
        4.0,
    )
    yield _p("label_replace in label_replace", _doubled(24), ANYTHING, 4.0)
    yield _p(
        "label_join that grows",
        'label_join(temp, "a", "' + "x" * 5_000 + '"' + ', "job"' * 5_000 + ")",
        ANYTHING,
        4.0,
    )
    yield _p(
        "label_join in label_join",
        "label_join(" * 24 + "temp" + ', "job", "-", "job", "job")' * 24,
        ANYTHING,
        4.0,
    )
    yield _p(
        "label_replace with a template of digits", f'label_replace(temp, "a", "${{{D}}}", "job", "(.*)")'
    )
    yield _p(
        "label_replace with 1,000 groups",
        'label_replace(temp, "a", "$999", "job", "' + "(.?)" * 1_000 + '")',
        ANYTHING,
        3.0,
    )
    yield _p("info of everything", 'info({__name__=~".+"}, {__name__=~".+"})', ANYTHING, 10.0)
    yield _p("info in info", "info(" * 200 + "temp" + ")" * 200, ANYTHING, 6.0)
    yield _p("quantiles of all", 'quantile(time(), {__name__=~"many|temp"})', ANSWER, 3.0)
    yield _p("limit_ratio of time", "limit_ratio(time(), many)", ANSWER, 3.0)
    yield _p("many deviations", "stddev_over_time(many[1h:10s])", ANYTHING, 12.0)
    yield _p("a median by hand", "quantile_over_time(0.5, many[1h:15s])", ANYTHING, 12.0)
    yield _p("the same selector 300 times", "+".join(["rate(requests_total[5m])"] * 300), ANSWER, 6.0)
    yield _p(
        "300 different ranges", "+".join(f"rate(requests_total[{n}s])" for n in range(60, 360)), ANSWER, 12.0
    )


def _doubled(times: int) -> str:
    """Double a label each time."""
    return "label_replace(" * times + "temp" + ', "job", "$1$1", "job", "(.*)")' * times


def _promql_histograms() -> Iterator[Hostile]:
    yield _p("100,000 buckets", "wide", ANSWER, 8.0, AT)
    yield _p("100,000 buckets, a quantile", "histogram_quantile(0.99, wide)", ANSWER, 6.0)
    yield _p("100,000 buckets, a rate", "rate(wide[10m])", ANSWER, 12.0, AT)
    yield _p("100,000 buckets, summed", "sum(wide) + sum(wide)", ANSWER, 12.0, AT)
    yield _p("100,000 buckets, trimmed", "wide </ 500", ANSWER, 8.0, AT)
    yield _p("10,000 classic buckets", "histogram_quantile(0.5, tall_bucket)", ANSWER, 6.0)
    yield _p("10,000 classic buckets, a fraction", "histogram_fraction(0, 1e308, tall_bucket)", ANSWER, 6.0)
    yield _p("a quantile of NaN", "histogram_quantile(NaN, size)")
    yield _p("3,000 quantiles", 'histogram_quantiles(size, "q"' + ", 0.5" * 3_000 + ")", ANYTHING, 8.0)
    yield _p(
        "buckets that are no numbers",
        'histogram_quantile(0.5, label_replace(lat_bucket, "le", "x", "le", ".*"))',
        ANYTHING,
    )
    yield _p("histograms to the power", "size ^ size")
    yield _p("histograms divided by zero", "size / 0")
    yield _p("histograms times infinity", "sum(size * Inf) - sum(size * Inf)", ANSWER, 2.0)
    yield _p("mixed layouts added", 'sum({__name__=~"size|nhcb|ghist|mixed"})', ANSWER, 3.0)


def _promql_trees() -> Iterator[Hostile]:
    tree = "up"
    for _ in range(9):
        tree = f"({tree} + {tree})"
    yield _p("a tree of 512 leaves", tree, ANSWER, 4.0)
    join = "up"
    for _ in range(8):
        join = f"({join} * on (job, instance) group_left () {join})"
    yield _p("a tree of 256 joins", join, ANSWER, 4.0)
    either = "temp"
    for number in range(9):
        either = f"({either} or {either} > {number})"
    yield _p("a tree of 512 or", either, ANSWER, 4.0)
    ranged = "rate(requests_total[5m])"
    for _ in range(7):
        ranged = f"max_over_time(({ranged} + {ranged})[2m:1m])"
    yield _p("a tree of 128 subqueries", ranged, ANYTHING, 20.0)


def _line(stages: str) -> str:
    return '{app="web"} ' + stages


def _logql_texts() -> Iterator[Hostile]:
    yield _l("64 kB of parentheses", "(" * KB64, PARSE)
    yield _l("64 kB of braces", "{" * KB64, PARSE)
    yield _l("64 kB of pipes", _line("|" * KB64), PARSE)
    yield _l("64 kB of a filter", _line('|= "' + "x" * KB64 + '"'), ANYTHING)
    yield _l("64 kB of backquotes", _line("|= `" + "x" * KB64), PARSE)
    yield _l("64 kB of escapes", _line('|= "' + "\\x41" * 15_000 + '"'), ANYTHING)
    yield _l("64 kB of NUL", "\0" * KB64, PARSE)
    yield _l("64 kB of emoji", _line('|= "' + "\U0001f600" * 15_000 + '"'), ANYTHING)
    yield _l("64 kB of comments", "# x\n" * 15_000 + '{app="web"}', ANYTHING)
    yield _l("a chain of 20,000 sums", "+".join(["1"] * 20_000), ANYTHING, 3.0)
    yield _l("a chain of 600 counts", "+".join(['count_over_time({app="web"}[1m])'] * 600), ANYTHING, 6.0)
    yield _l("a chain of 200 counts", "+".join(['count_over_time({app="web"}[1m])'] * 200), ANYTHING, 6.0)
    yield _l("250 parentheses", "(" * 249 + "vector(1)" + ")" * 249, ANYTHING)
    yield _l("10,000 parentheses", "(" * 10_000 + "vector(1)" + ")" * 10_000, PARSE)
    yield _l("3,000 line filters", _line(' |= "a"' * 3_000), ANYTHING, 3.0)
    yield _l("3,000 alternatives", _line("|= " + " or ".join(f'"x{n}"' for n in range(3_000))), ANYTHING, 3.0)
    yield _l(
        "3,000 negated alternatives",
        _line("!= " + " or ".join(f'"x{n}"' for n in range(3_000))),
        ANYTHING,
        3.0,
    )
    yield _l("3,000 stages", _line("| decolorize" * 3_000), ANYTHING, 6.0)
    yield _l("3,000 matchers", "{" + ",".join(f'l{n}=~".+"' for n in range(3_000)) + "}", ANYTHING, 3.0)
    yield _l("10,000 kept labels", _line("| keep " + ",".join(f"l{n}" for n in range(10_000))), ANYTHING, 3.0)
    yield _l(
        "10,000 grouped labels",
        "sum by (" + ",".join(f"l{n}" for n in range(10_000)) + ') (rate({app="web"}[1m]))',
        ANYTHING,
        2.0,
    )
    yield _l("variants", 'variants(rate({app="web"}[1m])) of ({app="web"}[1m])', "unsupported")


def _logql_regexes() -> Iterator[Hostile]:
    for name, pattern in (
        ("a plus of a plus", "(a+)+$"),
        ("a star of a star", "(x*)*y"),
        ("alternatives of the same", "(a|a)*b"),
        ("alternatives that nest", "(a|aa)+$"),
        ("60 optional", "a?" * 60 + "a" * 60),
        ("dots", ".*" * 200 + "x"),
        ("dots in groups", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x"),
        ("a large repeat", "(a{0,1000}){0,1}b"),
        ("nested repeats", "((a{1,30}){1,30}){1,30}"),
        ("repeats of any", ".{1000}" * 20),
        ("unicode classes", "(\\\\p{L}+\\\\p{N}*)+\\\\p{Z}$"),
        ("1,000 groups", "(a?)" * 1_000),
        ("case folded", "(?i)" + "(k|K|\u212a)*x"),
        ("word boundaries", "(\\\\b\\\\w+\\\\b\\\\s*)+$"),
        ("2,000 words", "|".join(f"word{n}" for n in range(2_000))),
        ("10,000 parentheses", "(" * 10_000 + ")" * 10_000),
        ("60 kB", "[a-z]" * 12_000),
    ):
        yield _l(f"line regex, {name}", '{app="hostile"} |~ "' + pattern + '"', ANYTHING, 4.0)
    yield _l("label regex", '{app="hostile"} | label_format v="{{__line__}}" | v=~"(a+)+$"', ANYTHING, 4.0)
    yield _l("regexp stage", '{app="hostile"} | regexp "(?P<a>(a+)+)$"', ANYTHING, 6.0)
    yield _l(
        "regexp stage with 1,000 names",
        '{app="web"} | regexp "' + "".join(f"(?P<g{n}>.?)" for n in range(1_000)) + '"',
        ANYTHING,
        8.0,
    )
    yield _l(
        "replace in a template",
        '{app="hostile"} | line_format `{{ regexReplaceAll "(a+)+$" __line__ "x" }}`',
        ANYTHING,
        6.0,
    )
    yield _l(
        "a replacement that grows",
        '{app="hostile"} | line_format `{{ regexReplaceAll "a" __line__ "' + "x" * 1_000 + '" }}`',
        ANYTHING,
        8.0,
    )
    yield _l(
        "label_replace of lines",
        'label_replace(rate({app="web"}[1m]), "a", "' + "$1" * 5_000 + '", "app", "(.*)")',
        ANYTHING,
        2.0,
    )
    yield _l(
        "pattern of 1,000 captures",
        _line('| pattern "' + " ".join(f"<a{n}>" for n in range(1_000)) + '"'),
        ANYTHING,
        4.0,
    )
    yield _l("pattern on a long line", '{app="hostile"} | pattern "<a>a<b>a<c>a<d>y"', ANYTHING, 4.0)
    yield _l("pattern filter on a long line", '{app="hostile"} |> "<_>a<_>a<_>a<_>y"', ANYTHING, 4.0)


def _logql_parsers() -> Iterator[Hostile]:
    for stage in ("json", "logfmt", "logfmt --strict", "logfmt --keep-empty", "unpack", "decolorize"):
        yield _l(f"{stage} of hostile lines", '{app="hostile"} | ' + stage, ANYTHING, 6.0)
        yield _l(
            f"{stage} of hostile lines, counted",
            'sum(count_over_time({app="hostile"} | ' + stage + " [10m]))",
            ANYTHING,
            6.0,
        )
    for name, made in (
        ("100,000 brackets", '{{ repeat 100000 "[" }}'),
        ("100,000 objects", '{{ repeat 100000 "{\\"a\\":" }}'),
        ("100,000 quotes", '{{ repeat 100000 "a=\\"" }}'),
        ("100,000 pairs", '{{ repeat 100000 "a=b " }}'),
        ("100,000 backslashes", '"{{ repeat 100000 "\\\\" }}'),
        ("100,000 escapes", '{"a":"{{ repeat 60000 "\\\\u00e9" }}"}'),
    ):
        for stage in ("json", "logfmt", "unpack"):
            yield _l(f"{stage} of {name}", _line(f"| line_format `{made}` | {stage}"), ANYTHING, 12.0)
    yield _l("a path of 5,000 indexes", _line('| json a="' + "[0]" * 5_000 + '"'), ANYTHING, 2.0)
    yield _l("a path of 5,000 names", _line('| json a="a' + ".b" * 5_000 + '"'), ANYTHING, 2.0)
    yield _l("an index of 5,000 digits", _line(f'| json a="[{D}]"'), PARSE)
    yield _l("2,000 paths", _line("| json " + ",".join(f'a{n}="b{n}"' for n in range(2_000))), ANYTHING, 4.0)
    yield _l("json of 20,000 keys", '{app="keys"} | json', ANYTHING, 8.0)
    yield _l(
        "json of 20,000 keys, counted by all", 'count_over_time({app="keys"} | json [10m])', ANYTHING, 8.0
    )


def _logql_templates() -> Iterator[Hostile]:
    for name, template, expected in (
        ("repeat", '{{ repeat 100000000 "x" }}', ANYTHING),
        ("repeat of repeat", '{{ repeat 100000 (repeat 100000 "x") }}', ANYTHING),
        ("indent", '{{ indent 100000000 "x" }}', ANYTHING),
        ("alignLeft", '{{ alignLeft 1000000000 "x" }}', ANYTHING),
        ("printf width", '{{ printf "%1000000000d" 1 }}', ANYTHING),
        ("printf precision", '{{ printf "%.1000000000f" 1.5 }}', ANYTHING),
        ("printf star", '{{ printf "%*d" 1000000000 1 }}', ANYTHING),
        ("an endless range", "{{ range 9000000000000000000 }}{{ end }}", ANYTHING),
        ("ranges in ranges", "{{ range 10000 }}{{ range 10000 }}x{{ end }}{{ end }}", ANYTHING),
        ("a range that writes", "{{ range 100000000 }}xxxxxxxxxxxxxxxx{{ end }}", ANYTHING),
        (
            "a variable that doubles",
            '{{ $x := "x" }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}{{ $x }}',
            ANYTHING,
        ),
        (
            "a list that doubles",
            '{{ $x := fromJson "[1]" }}{{ range 100000 }}{{ $x = print $x }}{{ end }}',
            ANYTHING,
        ),
        (
            "a template that calls itself",
            '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
            ANYTHING,
        ),
        (
            "two templates that call each other",
            '{{ define "a" }}{{ template "b" . }}{{ template "b" . }}{{ end }}{{ define "b" }}{{ template "a" . }}{{ end }}{{ template "a" . }}',
            ANYTHING,
        ),
        ("fromJson of 100,000 brackets", '{{ fromJson (repeat 100000 "[") }}', ANYTHING),
        (
            "fromJson of closed brackets",
            '{{ fromJson (print (repeat 5000 "[") (repeat 5000 "]")) }}',
            ANYTHING,
        ),
        ("a number of 5,000 digits", f'{{{{ add "{D}" 1 }}}}', ANYTHING),
        ("an int of 100,000 digits", '{{ int (repeat 100000 "1") }}', ANYTHING),
        ("a float of 100,000 digits", '{{ float64 (repeat 100000 "1") }}', ANYTHING),
        (
            "a product that overflows",
            "{{ mul 9000000000000000000 9000000000000000000 9000000000000000000 }}",
            ANYTHING,
        ),
        ("a division by zero", "{{ div 1 0 }}{{ mod 1 0 }}{{ divf 1 0 }}", ANYTHING),
        ("rounding to 10^9 places", "{{ round 1.5 1000000000 }}", ANYTHING),
        ("a duration of 100,000 units", '{{ duration (repeat 100000 "1h") }}', ANYTHING),
        ("a size of 100,000 digits", '{{ bytes (print (repeat 100000 "1") "x") }}', ANYTHING),
        ("a time of 100,000 digits", '{{ unixToTime (repeat 100000 "1") }}', ANYTHING),
        ("a date of 100,000 fields", '{{ toDate (repeat 20000 "2006") (repeat 20000 "2006") }}', ANYTHING),
        ("a layout of 100,000 fields", '{{ __timestamp__ | date (repeat 20000 "2006-01-02") }}', ANYTHING),
        ("replace that grows", '{{ replace "x" (repeat 10000 "y") (repeat 10000 "x") }}', ANYTHING),
        ("replace of nothing", '{{ replace "" (repeat 1000 "y") (repeat 10000 "x") }}', ANYTHING),
        ("urlencode that grows", '{{ urlencode (repeat 1000000 "é") }}', ANYTHING),
        ("base64 of base64", '{{ b64enc (b64enc (b64enc (repeat 1000000 "x"))) }}', ANYTHING),
        ("10,000 actions", "{{ .app }}" * 5_000, ANYTHING),
        ("10,000 pipes", "{{ .app" + " | upper" * 5_000 + " }}", ANYTHING),
        ("10,000 parentheses", "{{ " + "(" * 5_000 + ".app" + ")" * 5_000 + " }}", ANYTHING),
        ("1,000 ifs", "{{ if .app }}" * 1_000 + "{{ end }}" * 1_000, ANYTHING),
    ):
        yield _l(f"line_format, {name}", _line(f"| line_format `{template}`"), expected, 8.0)
    yield _l("label_format, repeat", _line('| label_format v=`{{ repeat 100000 "1" }}`'), ANYTHING, 8.0)
    yield _l(
        "1,000 labels made",
        _line("| label_format " + ",".join(f"l{n}=app" for n in range(1_000))),
        ANYTHING,
        6.0,
    )
    yield _l(
        "a label that doubles",
        _line("| label_format a=`{{.a}}{{.a}}x`") + " | label_format a=`{{.a}}{{.a}}`" * 30,
        ANYTHING,
        8.0,
    )


def _logql_filters() -> Iterator[Hostile]:
    for unit in ("5", "5s", "5MB"):
        for digits in (
            '{{ repeat 100000 "1" }}x',
            '{{ repeat 100000 "1_" }}',
            '0x{{ repeat 100000 "f" }}p',
            '{{ repeat 50000 "1." }}',
            '{{ repeat 50000 "1h" }}x',
            '{{ repeat 100000 " " }}1',
        ):
            yield _l(f"{digits} > {unit}", _line(f"| label_format v=`{digits}` | v > {unit}"), ANYTHING, 4.0)
    yield _l(
        "an address in 1,000,000 digits",
        _line('| label_format v=`{{ repeat 1000000 "1." }}` | v = ip("1.0.0.0/8")'),
        ANYTHING,
        12.0,
    )
    yield _l("an address in hostile lines", '{app="hostile"} |= ip("1.0.0.0/8")', ANYTHING, 4.0)
    yield _l("an address of version 6", '{app="hostile"} |= ip("::/0")', ANYTHING, 4.0)
    yield _l("an address that is none", _line('|= ip("999.1.1.1")'), PARSE)
    yield _l(
        "1,000 conditions",
        _line("| json | " + " or ".join(f'status="{n}"' for n in range(1_000))),
        ANYTHING,
        4.0,
    )
    yield _l(
        "1,000 comparisons",
        _line("| json | " + " and ".join(f"status > {n}" for n in range(1_000))),
        ANYTHING,
        6.0,
    )
    yield _l("10,000 conditions in parentheses", _line("| " + "(" * 10_000 + "a=1" + ")" * 10_000), PARSE)
    yield _l("an error that is compared", _line("| json | __error__ > 5"), ANSWER)
    yield _l("a number of 5,000 digits", _line(f"| json | status > {D}"), PARSE)


def _logql_metrics() -> Iterator[Hostile]:
    yield _l("topk of 5,000 digits", f'topk({D}, rate({{app="web"}}[1m]))', PARSE)
    yield _l("topk of 9e18", 'topk(9223372036854775807, rate({app="web"}[1m]))', ANYTHING)
    yield _l("topk of more than 64 bits", 'topk(9223372036854775808, rate({app="web"}[1m]))', ANYTHING)
    yield _l("approx_topk", 'approx_topk(1000000000, sum by (app) (rate({app="web"}[1m])))', ANYTHING)
    yield _l("a range of 290 years", 'rate({app="web"}[290y])', ANYTHING)
    yield _l("a range of a nanosecond", 'rate({app="web"}[1ns])', ANYTHING)
    yield _l("an offset of 290 years", 'rate({app="web"}[1m] offset 290y)', ANYTHING)
    yield _l("11,000 steps", 'rate({app=~".+"}[1m])', ANYTHING, 4.0, Times(0, 10_900_000, 1_000))
    yield _l(
        "11,000 steps of long ranges",
        'sum_over_time({app="web"} | json | unwrap n | __error__="" [10m])',
        ANYTHING,
        6.0,
        LONG,
    )
    yield _l(
        "11,000 quantiles",
        'quantile_over_time(0.99, {app="web"} | json | unwrap n | __error__="" [10m])',
        ANYTHING,
        8.0,
        LONG,
    )
    yield _l(
        "unwrap of 100,000 digits",
        'sum_over_time({app="web"} | label_format v=`{{ repeat 100000 "1" }}x` | unwrap v [1m])',
        ANYTHING,
        4.0,
    )
    yield _l(
        "unwrap of 100,000 durations",
        'sum_over_time({app="web"} | label_format v=`{{ repeat 50000 "1h" }}x` | unwrap duration(v) [1m])',
        ANYTHING,
        4.0,
    )
    yield _l(
        "unwrap of 100,000 sizes",
        'sum_over_time({app="web"} | label_format v=`{{ repeat 100000 "1" }}x` | unwrap bytes(v) [1m])',
        ANYTHING,
        4.0,
    )
    yield _l(
        "a series per line",
        'count_over_time({app="hostile"} | label_format v="{{__line__}}" [10m])',
        ANYTHING,
        6.0,
    )
    yield _l(
        "a series per line and step",
        'sum by (v) (count_over_time({app=~".+"} | label_format v="{{__line__}}" [10m]))',
        ANYTHING,
        8.0,
    )
    yield _l(
        "every series with every one",
        'rate({app=~".+"} | json [1m]) * on () rate({app=~".+"} | json [1m])',
        ANYTHING,
        6.0,
    )
    yield _l(
        "absent with 3,000 labels",
        "absent_over_time({" + ",".join(f'l{n}="x"' for n in range(3_000)) + "}[1m])",
        ANYTHING,
        4.0,
    )
    yield _l(
        "label_replace in label_replace",
        "label_replace(" * 24 + 'rate({app="web"}[1m])' + ', "app", "$1$1", "app", "(.*)")' * 24,
        ANYTHING,
        4.0,
    )
    yield _l("a trim is no operator", "2 </ 3", PARSE)
    tree = 'rate({app="web"}[1m])'
    for _ in range(7):
        tree = f"({tree} + {tree})"
    yield _l("a tree of 128 rates", tree, ANSWER, 6.0)

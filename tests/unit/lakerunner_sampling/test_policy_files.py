# ruff: noqa: E501 - a case is easier to read in few lines
"""Policy files and configurations: what loads, and where faults are."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from lakerunner_sampling.config import read_config, read_config_file
from lakerunner_sampling.policies.documents import MAX_BYTES, go_duration, read_policies, read_policy_file
from lakerunner_sampling.policies.model import PolicyError
from lakerunner_sampling.policies.ottl import MAX_DEPTH, OttlError, compile_conditions

COLLECTOR = b"""
receivers: {otlp: {protocols: {grpc: }}}
processors:
  batch: {}
  tail_sampling/traces:
    decision_wait: 1m30s
    num_traces: 100
    expected_new_traces_per_sec: 10
    decision_cache: {sampled_cache_size: 100_000, non_sampled_cache_size: 100_000}
    sample_on_first_match: true
    policies:
      [
        { name: all, type: always_sample }, # of a debugging day
        { name: slow, type: latency, latency: {threshold_ms: 5000, upper_threshold_ms: 10000} },
        { name: paths, type: string_attribute,
          string_attribute: {key: url.path, values: [\\/health, \\/metrics], enabled_regex_matching: true} },
        { name: share, type: probabilistic, probabilistic: {hash_salt: "custom-salt", sampling_percentage: 0.1} },
        { name: spans, type: ottl_condition, ottl_condition: {error_mode: ignore, span: [
            "attributes[\\"test_attr_key_1\\"] == \\"test_attr_val_1\\"",
            'resource.attributes["service.name"] == "checkout"'], spanevent: ["name != \\"x\\""]} },
      ]
exporters: {otlp: {endpoint: "x:4317"}}
service: {pipelines: {traces: {receivers: [otlp], processors: [tail_sampling/traces], exporters: [otlp]}}}
"""
LAKEKEEPER = b"""
storage:
  storage_type: "iceberg"
  iceberg:
    catalog_uri: "http://lakekeeper:8181/catalog"
    warehouse: "s3://iceberg-warehouse/traces/"
    namespace: "default"
    table_name: "otel_traces"
    s3_endpoint: "http://minio:9000"
    s3_access_key_id: "admin"
    s3_secret_access_key: "${SECRET}"
    s3_region: "us-east-1"
    s3_path_style: true
app:
  inactivity_timeout_secs: 300
  max_trace_duration_secs: ${env:LONGEST:-3600}
redis:
  trace_ttl_secs: 7200
export: {type: datadog, url: "http://agent:8126"}
policies: [{name: errors, type: status_code, status_code: {status_codes: [ERROR]}}]
"""


def faults(text: str, environment: dict[str, str] | None = None) -> list[str]:
    def read() -> object:
        if environment is None:
            return read_policies(text.encode(), "f")
        return read_config(text.encode(), environment, "f")

    with pytest.raises(PolicyError) as raised:
        read()
    return str(raised.value).splitlines()


def test_a_collectors_configuration_loads_unchanged() -> None:
    found = read_policies(COLLECTOR)
    assert [each.name for each in found.policies] == ["all", "slow", "paths", "share", "spans"]
    assert found.first_match
    assert found.decision_wait_ms == 90_000
    assert [note.split()[0] for note in found.notes] == [
        "num_traces",
        "expected_new_traces_per_sec",
        "decision_cache",
    ]


def test_a_configuration_with_lakekeeper_loads() -> None:
    found = read_config(LAKEKEEPER, {"SECRET": "a$$b"})
    assert (found.storage_type, found.table.namespace, found.table.table) == (
        "iceberg",
        "default",
        "otel_traces",
    )
    assert found.table.properties["s3.secret-access-key"] == "a$$b", (
        "what the environment holds is not read again"
    )
    assert found.table.properties["type"] == "rest"
    assert (found.app.inactivity_s, found.app.max_duration_s, found.redis.trace_ttl_s) == (300, 3600, 7200)
    assert "a$$b" not in repr(found), "secrets are not shown"


def test_the_form_for_databricks_loads() -> None:
    text = """
storage:
  type: iceberg
  catalog: {type: unity, workspace_url: https://w.databricks.com/, catalog_name: observability, token: "${TOKEN}"}
  table: {namespace: traces, name: otel_spans, shape: automq_flat}
tail_sampling: {decision_wait: 20s, policies: [{name: a, type: always_sample}]}
"""
    found = read_config(text.encode(), {"TOKEN": "t"})
    assert found.table.properties["uri"] == "https://w.databricks.com/api/2.1/unity-catalog/iceberg-rest"
    assert (found.table.table, found.table.shape, found.app.inactivity_s) == ("otel_spans", "automq_flat", 20)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "- {name: a, type: latency, latency: {treshold_ms: 1}}",
            "f:1:38: field treshold_ms not found in type latency",
        ),
        ("- {name: a, typ: latency}", "f:1:13: field typ not found in type policy"),
        (
            "- {name: a, type: latencyy}",
            "f:1:19: policy a: unknown type 'latencyy'; known: always_sample, latency",
        ),
        (
            "- {name: a, type: latency, latency: {threshold_ms: x}}",
            "f:1:52: cannot unmarshal !!str `x` into int",
        ),
        (
            "- {name: a, type: latency, probabilistic: {}}",
            "f:1:43: policy a: settings of probabilistic in a policy",
        ),
        ("- {type: always_sample}", "f:1:3: a policy must have a name"),
        (
            "- {name: a, type: always_sample}\n- {name: a, type: always_sample}",
            "f:2:3: duplicate policy name 'a'",
        ),
        ("[]", "f:1:1: no policies"),
        ("polices: []", "f:1:1: field polices not found in type tail_sampling"),
        ("processors: {batch: {}}", "f:1:13: expected one processor tail_sampling, found 0"),
        ("policies: [{name: a, type: and}]", "f:1:12: and needs at least one policy in and_sub_policy"),
        ("- {name: a, type: not, not: {}}", "f:1:29: not needs a not_sub_policy"),
        ("- {name: a, type: probabilistic, probabilistic: {sampling_percentage: .inf}}", "into float64"),
        ("- {name: a, type: probabilistic, probabilistic: {sampling_percentage: ten}}", "into float64"),
        (
            "- {name: a, type: status_code, status_code: {status_codes: [error]}}",
            "unknown status code 'error': OK, ERROR or UNSET",
        ),
        ("- {name: a, type: status_code}", "expected at least one status code"),
        (
            "- {name: a, type: numeric_attribute, numeric_attribute: {key: n, min_value: 0}}",
            "must be set, and not be 0",
        ),
        ("- {name: a, type: boolean_attribute, boolean_attribute: {key: b, value: maybe}}", "into bool"),
        (
            "- {name: a, type: string_attribute, string_attribute: {values: [x]}}",
            "expected the key of an attribute",
        ),
        (
            "- {name: a, type: string_attribute, string_attribute: {key: k, values: ['(x'], enabled_regex_matching: true}}",
            "invalid regular expression '(x'",
        ),
        (
            "- {name: a, type: string_attribute, string_attribute: {key: k, values: ['(?=x)'], enabled_regex_matching: true}}",
            "invalid regular expression",
        ),
        (
            "- {name: a, type: ottl_condition, ottl_condition: {span: ['attributes[1] == 2']}}",
            "(character 12 of",
        ),
        (
            "- {name: a, type: ottl_condition, ottl_condition: {span: [], error_mode: explode}}",
            "error_mode ignore",
        ),
        ("- {name: a, type: rate_limiting, rate_limiting: {spans_per_second: -5}}", "must be 0 or more"),
        (
            "- {name: a, type: ema_dynamic, ema_dynamic: {field_list: [x]}}",
            "goal_sample_rate must be 1 or more",
        ),
        ("{policies: [{name: a, type: always_sample}], tail_storage: x}", "tail_storage is not supported"),
        (
            "{policies: [{name: a, type: always_sample}], sampling_strategy: span-ingest}",
            "use trace-complete",
        ),
        ("{policies: [{name: a, type: always_sample}], maximum_trace_size_bytes: 5}", "is not supported"),
        ("{policies: [{name: a, type: always_sample}], decision_wait: 10}", "f:1:61: invalid duration '10'"),
        (
            "- {name: a, type: not, not: {not_sub_policy: {name: d, type: drop, drop: {drop_sub_policy: [{name: x, "
            "type: always_sample}]}}}}",
            "a policy of type drop must stand at the top",
        ),
        (
            "- {name: c, type: composite, composite: {max_total_spans_per_second: 5, composite_sub_policy: [{name: x, "
            "type: always_sample}], rate_allocation: [{policy: y, percent: 5}]}}",
            "no policy 'y' in composite_sub_policy",
        ),
        ("a: b\n---\nc: d", "f:3:1: expected one document, found 2"),
        ("", "f:1:1: expected one document, found 0"),
        ("- {name: a", "did not find expected"),
        ("- &a [*a]", "contains itself"),
        ("- !!python/object:os.system {}", "a policy must have a name"),
        ("- {name: a, name: b, type: always_sample}", 'mapping key "name" already defined'),
    ],
)
def test_faults_have_their_place(text: str, wanted: str) -> None:
    assert any(wanted in fault for fault in faults(text)), faults(text)


def test_all_faults_are_told_at_once() -> None:
    found = faults(
        "storage: {iceberg: {catalog_urix: 1, shape: square}}\napp: {inactivity_timeout_secs: -1}\n"
        "redis: {url: '${NO}', trace_ttl_secs: 5}\nexport: [{type: ftp}, {type: file}]\nfoo: 1\n",
        {},
    )
    assert [fault.split(": ")[0] for fault in found] == sorted(
        (fault.split(": ")[0] for fault in found), key=[fault.split(": ")[0] for fault in found].index
    )
    for part in ("f:1:21: field catalog_urix", "shape 'square'", "inactivity_timeout_secs must be above 0",
                 "the environment has no NO", "trace_ttl_secs must be above max_trace_duration_secs", "type 'ftp'",
                 "file needs path", "f:5:1: field foo", "expected one of policies"):  # fmt: skip
        assert any(part in fault for fault in found), (part, found)


def test_dollar_signs_of_regular_expressions_are_doubled_as_in_the_collector() -> None:
    text = b"- {name: a, type: string_attribute, string_attribute: {key: k, values: ['^a$$'], enabled_regex_matching: true}}"
    (policy,) = read_policies(text, "f", {}).policies
    assert "'^a$'" in policy.rule.condition
    (policy,) = read_policies(text).policies
    assert "'^a$$'" in policy.rule.condition


def test_policies_that_draw_too_many_lots_are_refused() -> None:
    text = "\n".join(
        f"- {{name: p{n}, type: probabilistic, probabilistic: {{sampling_percentage: 1, hash_salt: s{n}}}}}"
        for n in range(11)
    )
    with pytest.raises(PolicyError, match="the same hash_salt"):
        read_policies(text.encode()).policy_set()
    same = text.replace("hash_salt: s", "hash_salt: same }} #").replace("}} #", "} } #")
    assert read_policies(same.encode()).policy_set()


def test_hostile_files_end_soon(tmp_path: Path) -> None:
    began = time.monotonic()
    bombs = [
        "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)),
        "- " * 5000 + "x",
        "[" * 5000,
        "- {name: a, type: and, and: " * 500,
        "\0", "\xff\xfe", "- {name: \"a\0b\", type: always_sample}",
        "- {name: a, type: ottl_condition, ottl_condition: {span: ['" + "(" * 5000 + "']}}",
        "- {name: a, type: ottl_condition, ottl_condition: {span: ['" + "not " * 2000 + "true']}}",
        "- {name: a, type: ottl_condition, ottl_condition: {span: ['" + "Int(" * 2000 + "']}}",
        "- {name: a, type: string_attribute, string_attribute: {key: k, values: ['" + "(a{1000}){1000}" * 3
        + "'], enabled_regex_matching: true}}",
        "[" + "{name: a, type: always_sample}," * 20_000 + "]",
    ]  # fmt: skip
    for bomb in bombs:
        with pytest.raises(PolicyError):
            read_policies(bomb.encode("utf-8", "surrogatepass"), "f")
    with pytest.raises(PolicyError, match="longer than 1 MiB"):
        read_policies(b"#" * (MAX_BYTES + 1))
    with pytest.raises(PolicyError, match="name a file with policies"):
        read_policy_file(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="name a configuration"):
        read_config_file(tmp_path / "none.yaml", {})
    assert time.monotonic() - began < 20


def test_random_changes_of_a_file_are_read_or_refused() -> None:
    rng = random.Random(5)
    for _ in range(150):
        text = bytearray(COLLECTOR)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(3)] = rng.choice(
                [b"", b"{", b"- ", b"'", b"9", b"\n", b"&a ", b"*a", b": "]
            )
        with suppress(PolicyError):
            read_policies(bytes(text)).policy_set()


@pytest.mark.parametrize(
    ("condition", "column", "message"),
    [
        ("name ==", 8, "expected a value, found 'the end'"),
        ("name", 1, "expected a comparison"),
        ('name == "a" and', 16, "expected a value"),
        ('name == "a" extra', 13, "unexpected 'extra'"),
        ("duration > 5", 1, "path span.duration is not supported"),
        ('attributes["a"]["b"] == 1', 16, "parts of an attribute"),
        ('Substring(name, 0, 1) == "a"', 1, "function Substring is not supported; known: Double"),
        ("IsMatch(name, name)", 15, "takes its pattern as a text"),
        ('IsMatch(name, "(")', 15, "invalid regular expression"),
        ("IsRootSpan(1)", 1, "takes 0 arguments, not 1"),
        ('name + 1 == "a"', 1, "arithmetic needs numbers"),
        ("spanevent.name == 1", 1, "belong into conditions under"),
        ("name == 'a'", 9, "unexpected"),
        ("(" * (MAX_DEPTH + 1) + "true", MAX_DEPTH + 1, "nested more than"),
    ],
)
def test_conditions_outside_the_subset_are_refused_with_their_position(
    condition: str, column: int, message: str
) -> None:
    with pytest.raises(OttlError, match=message.replace("(", r"\(")) as raised:
        compile_conditions([condition], event=False)
    assert raised.value.column == column


def test_texts_of_conditions_never_leave_their_quotes() -> None:
    hostile = "it's \"; DROP TABLE spans; --"
    escaped = hostile.replace('"', '\\"')
    compiled = compile_conditions(
        [f'attributes["{escaped}"] == "{escaped}" and IsMatch(name, "{escaped}")'], event=False
    )
    (attribute,) = compiled.attributes
    assert attribute.key == hostile
    relation = 'SELECT ? AS "span:' + hostile.replace('"', '""') + '", ? AS name'
    assert duckdb.execute(f"SELECT {compiled.sql} FROM ({relation})", [hostile, hostile]).fetchall() == [
        (True,)
    ]


def test_durations_are_gos() -> None:
    assert go_duration("1h2m3.5s") == 3_723_500_000_000
    for wrong in ("", "10", "s", "1x", "-1s", "1s ", "9" * 50 + "s"):
        with pytest.raises(ValueError, match="invalid duration"):
            go_duration(wrong)

"""The sampler's configuration is one YAML file: table, completeness, Redis, export and policies.

    storage: {storage_type: iceberg, iceberg: {catalog_uri: "http://lakekeeper:8181/catalog", …}}
    app: {inactivity_timeout_secs: 300, max_trace_duration_secs: 3600}
    redis: {url: "redis://redis:6379", trace_ttl_secs: 7200}
    export: [{name: agent, type: datadog, url: "http://agent:8126"}]
    policies: […]     # or the collector's `tail_sampling`, or `processors: {tail_sampling: …}`

`${NAME}`, `${env:NAME}` and `${NAME:-default}` stand for the environment, `$$` for a dollar sign, as in the
collector. Unknown keys are faults with line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fsspec.spec import AbstractFileSystem

from lakerunner_sampling.lake_shapes import AutomqRawShape, LakeShape
from lakerunner_sampling.policies.documents import (
    MAX_BYTES,
    PolicyDocument,
    PolicyFileError,
    expand,
    find_processor,
    go_duration,
    only_document,
    read_list,
    read_section,
)
from lakerunner_sampling.policies.model import PolicyError
from lakerunner_sampling.shapes import AutomqFlatShape, CanonicalShape, SpanShape
from resources.yaml_nodes import Fault, Fields, Node, Reading, YamlError, compose

SHAPES: Mapping[str, Callable[[AbstractFileSystem | None], SpanShape]] = {
    CanonicalShape.name: lambda _: CanonicalShape(),
    AutomqFlatShape.name: lambda _: AutomqFlatShape(),
    AutomqRawShape.name: AutomqRawShape,
    LakeShape.name: LakeShape,
}
CATALOGS = ("rest", "sql", "glue", "hive", "unity")
DESTINATIONS = ("datadog", "otlp_http", "otlp_grpc", "file")
_KEYS = ("storage", "app", "redis", "export", "policies", "tail_sampling", "processors")

_PROPERTIES = {
    "uri": "catalog_uri", "warehouse": "warehouse", "token": "token", "s3.endpoint": "s3_endpoint",
    "s3.access-key-id": "s3_access_key_id", "s3.secret-access-key": "s3_secret_access_key",
    "s3.region": "s3_region",
}  # fmt: skip
"""Keys of the file by pyiceberg's property."""


@dataclass(frozen=True, slots=True)
class TableConfig:
    """Table that is read."""

    catalog: str = "lakerunner"
    """Name of the catalog, which a SQL catalog stores with its tables."""
    shape: str = "canonical"
    namespace: str = "default"
    table: str = "otel_traces"
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Properties of pyiceberg's catalog, some of them secret."""


@dataclass(frozen=True, slots=True)
class AppConfig:
    """Completeness of traces, and bounds of the process."""

    name: str = "default"
    """Name of this sampler among those of an organisation."""
    organization: str = ""
    inactivity_s: float = 300.0
    max_duration_s: float = 3600.0
    max_spans: int = 1_000_000
    uses_tracestate: bool = True
    inverted_decisions: bool = False
    memory_mb: int = 128
    threads: int = 2
    scratch: Path | None = None


@dataclass(frozen=True, slots=True)
class RedisConfig:
    """Redis; without a URL PostgreSQL alone de-duplicates."""

    url: str = field(default="", repr=False)
    trace_ttl_s: float = 7200.0


@dataclass(frozen=True, slots=True)
class ExportConfig:
    """Destination of kept traces."""

    name: str
    type: str
    url: str = ""
    path: str = ""
    version: str = "v0.4"
    timeout_s: float = 10.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SamplerConfig:
    """The whole file."""

    storage_type: str
    """`iceberg`, or `memory`, in which whole spans are held: the old way, for comparison."""
    table: TableConfig
    app: AppConfig
    redis: RedisConfig
    export: tuple[ExportConfig, ...]
    policies: PolicyDocument


def make_shape(name: str, source: AbstractFileSystem | None = None) -> SpanShape:
    """Make a shape; `source` opens files that are not on disk."""
    return SHAPES[name](source)


def read_config_file(path: Path, environment: Mapping[str, str]) -> SamplerConfig:
    """Read the configuration, or raise with the places of its faults."""
    try:
        with path.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}; name a configuration of the sampler") from error
    return read_config(text, environment, str(path))


def read_config(text: bytes, environment: Mapping[str, str], file: str = "config") -> SamplerConfig:
    """Read a configuration from its text."""
    if len(text) > MAX_BYTES:
        raise PolicyFileError(file, [Fault(1, f"longer than {MAX_BYTES >> 20} MiB", 1)])
    reading = Reading(go_duration)
    try:
        root = only_document(reading, compose(text))
        expand(reading, root, environment)
        found = _config(reading, root)
    except YamlError as error:
        raise PolicyFileError(file, [error.fault]) from error
    if reading.faults:
        raise PolicyFileError(file, reading.faults)
    return found


def _config(reading: Reading, root: Node) -> SamplerConfig:
    fields = reading.fields(root, "the configuration", _KEYS)
    keys = ("storage_type", "type", "iceberg", "catalog", "table")
    kind, table = _storage(reading, reading.fields(fields.node("storage"), "storage", keys))
    policies = _policies(reading, fields)
    app = _app(reading, fields.node("app"), policies)
    redis = reading.fields(fields.node("redis"), "redis", ("url", "trace_ttl_secs"))
    ttl = redis.decimal("trace_ttl_secs") or 2 * app.max_duration_s
    if ttl <= app.max_duration_s:
        redis.fault("trace_ttl_secs", "trace_ttl_secs must be above max_trace_duration_secs")
    return SamplerConfig(
        kind,
        table,
        app,
        RedisConfig(redis.text("url"), ttl),
        _export(reading, fields.node("export")),
        policies,
    )


def _policies(reading: Reading, fields: Fields) -> PolicyDocument:
    given = [name for name in ("policies", "tail_sampling", "processors") if name in fields]
    if len(given) != 1:
        fields.fault(given[1] if given else "policies", "expected one of policies, tail_sampling, processors")
        return PolicyDocument(())
    if given == ["policies"]:
        return PolicyDocument(read_list(reading, fields.node("policies")))
    if given == ["tail_sampling"]:
        return read_section(reading, fields.node("tail_sampling"))
    return read_section(reading, find_processor(reading, fields.node("processors")))


def _app(reading: Reading, node: Node, policies: PolicyDocument) -> AppConfig:
    fields = reading.fields(node, "app", (
        "name", "organization", "inactivity_timeout_secs", "max_trace_duration_secs", "max_trace_spans",
        "use_tracestate", "inverted_decisions", "memory_mb", "threads", "scratch",
    ))  # fmt: skip
    usual = AppConfig()
    waited = (policies.decision_wait_ms or 0) / 1000
    found = AppConfig(
        name=fields.text("name") or usual.name,
        organization=fields.text("organization"),
        inactivity_s=fields.decimal("inactivity_timeout_secs") or waited or usual.inactivity_s,
        max_duration_s=fields.decimal("max_trace_duration_secs") or usual.max_duration_s,
        max_spans=fields.number("max_trace_spans") or usual.max_spans,
        uses_tracestate=fields.flag("use_tracestate") if "use_tracestate" in fields else True,
        inverted_decisions=fields.flag("inverted_decisions"),
        memory_mb=fields.number("memory_mb") or usual.memory_mb,
        threads=fields.number("threads") or usual.threads,
        scratch=Path(fields.text("scratch")) if "scratch" in fields else None,
    )
    for name, value in (("inactivity_timeout_secs", found.inactivity_s), ("memory_mb", found.memory_mb),
                        ("max_trace_duration_secs", found.max_duration_s), ("threads", found.threads),
                        ("max_trace_spans", found.max_spans)):  # fmt: skip
        if value <= 0:
            fields.fault(name, f"{name} must be above 0")
    return found


def _storage(reading: Reading, fields: Fields) -> tuple[str, TableConfig]:
    kind = fields.text("storage_type") or fields.text("type") or "iceberg"
    if kind not in {"iceberg", "memory"}:
        fields.fault("storage_type", f"storage_type {kind!r}: expected iceberg or memory")
    if "catalog" in fields or "table" in fields:
        return kind, _catalog(reading, fields)
    keys = (
        "namespace",
        "table_name",
        "shape",
        "catalog_type",
        "catalog_name",
        "s3_path_style",
        "properties",
        *_PROPERTIES.values(),
    )
    iceberg = reading.fields(fields.node("iceberg"), "iceberg", keys)
    catalog = iceberg.text("catalog_type") or ("rest" if "catalog_uri" in iceberg else "sql")
    if catalog not in CATALOGS:
        iceberg.fault("catalog_type", f"catalog_type {catalog!r}: expected one of {', '.join(CATALOGS)}")
    properties = {"type": catalog}
    for name, key in _PROPERTIES.items():
        if key in iceberg:
            properties[name] = iceberg.text(key)
    if "s3_path_style" in iceberg:
        properties["s3.force-virtual-addressing"] = str(not iceberg.flag("s3_path_style")).lower()
    properties |= iceberg.texts("properties")
    return kind, _table(iceberg, properties, "table_name")


def _catalog(reading: Reading, fields: Fields) -> TableConfig:
    """Read the form with `catalog` and `table`, which Databricks' Unity Catalog needs."""
    keys = ("type", "uri", "workspace_url", "catalog_name", "token", "properties")
    catalog = reading.fields(fields.node("catalog"), "catalog", keys)
    kind = catalog.text("type")
    if kind not in CATALOGS:
        catalog.fault("type", f"type {kind!r}: expected one of {', '.join(CATALOGS)}")
    properties = {"type": "rest" if kind == "unity" else kind}
    if kind == "unity":
        if "workspace_url" not in catalog or "catalog_name" not in catalog:
            catalog.fault("type", "a catalog of type unity needs workspace_url and catalog_name")
        properties["uri"] = catalog.text("workspace_url").rstrip("/") + "/api/2.1/unity-catalog/iceberg-rest"
        properties["warehouse"] = catalog.text("catalog_name")
    elif "uri" in catalog:
        properties["uri"] = catalog.text("uri")
    if "token" in catalog:
        properties["token"] = catalog.text("token")
    properties |= catalog.texts("properties")
    table = reading.fields(fields.node("table"), "table", ("namespace", "name", "shape"))
    return _table(table, properties, "name")


def _table(fields: Fields, properties: Mapping[str, str], name: str) -> TableConfig:
    usual = TableConfig()
    shape = fields.text("shape") or usual.shape
    if shape not in SHAPES:
        fields.fault("shape", f"shape {shape!r}: expected one of {', '.join(SHAPES)}")
    catalog = fields.text("catalog_name") or usual.catalog
    return TableConfig(
        catalog,
        shape,
        fields.text("namespace") or usual.namespace,
        fields.text(name) or usual.table,
        dict(properties),
    )


def _export(reading: Reading, node: Node) -> tuple[ExportConfig, ...]:
    """Read one destination or a list of them."""
    items = [node] if node.tag == "!!map" else reading.items(node, "destination")
    found: list[ExportConfig] = []
    for item in items:
        fields = reading.fields(
            item, "export", ("name", "type", "url", "path", "version", "timeout_secs", "headers")
        )
        kind = fields.text("type")
        one = ExportConfig(
            fields.text("name") or kind, kind, fields.text("url"), fields.text("path"),
            fields.text("version") or "v0.4", fields.decimal("timeout_secs") or 10.0, fields.texts("headers"),
        )  # fmt: skip
        if kind not in DESTINATIONS:
            fields.fault("type", f"type {kind!r}: expected one of {', '.join(DESTINATIONS)}")
        elif not (one.path if kind == "file" else one.url):
            fields.fault("type", f"a destination of type {kind} needs {'path' if kind == 'file' else 'url'}")
        if one.name in {each.name for each in found}:
            fields.fault("name", f"duplicate destination {one.name!r}")
        if one.version not in {"v0.4", "v0.5"}:
            fields.fault("version", f"version {one.version!r}: expected v0.4 or v0.5")
        if one.timeout_s <= 0:
            fields.fault("timeout_secs", "timeout_secs must be above 0")
        found.append(one)
    return tuple(found)

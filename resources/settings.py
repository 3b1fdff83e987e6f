"""Settings are read from the environment here and nowhere else.

Every knob is a field of `Settings`; field `kafka_bootstrap` is read from `LAKERUNNER_KAFKA_BOOTSTRAP`. A
value not in the environment is looked up in `<data_dir>/stack.env`, which `lakerunner up` writes, so that a
command typed in another shell finds the running stack. An unknown `LAKERUNNER_*` name is an error: a misspelt
option must never be silently ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

PREFIX = "LAKERUNNER_"
CREDENTIAL_PREFIX = "LAKERUNNER_CREDENTIALS_"
MIB = 1024 * 1024
DEFAULT_DATA_DIR = Path(".lakerunner")
RETIRED = ("LAKERUNNER_CODE_SERVER_PORT",)
"""Names that an older version wrote into `stack.env`; the next start writes the file anew without them."""


class SettingsError(ValueError):
    """Unknown, missing or malformed setting; the message names the variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    # --- where things are -------------------------------------------------------------------------
    data_dir: Path = DEFAULT_DATA_DIR
    index_dsn: str = ""
    lake_url: str = ""
    kafka_bootstrap: str = ""
    kafka_cluster: str = "local"
    spark_remote: str = ""
    ingress_host: str = "127.0.0.1"
    ingress_port: int = 4380
    ingress_grpc_port: int = 4317
    query_host: str = "127.0.0.1"
    query_port: int = 4381
    query_flight_port: int = 0
    query_postgres_port: int = 0
    query_tls_certificate: str = ""
    query_tls_key: str = ""
    allowed_hosts: str = ""
    worker_host: str = "127.0.0.1"
    worker_port: int = 4390
    worker_urls: str = ""
    worker_advertise_url: str = ""
    worker_lease_s: float = 15.0
    http_keep_alive_s: int = 120
    webserver_port: int = 4300
    # --- local stack (`lakerunner up`) ------------------------------------------------------------
    postgres_port: int = 4332
    kafka_port: int = 4392
    spark_port: int = 4315
    spark_cores: int = 0  # 0 = every core of the machine
    spark_memory_mb: int = 1024
    kafka_memory_mb: int = 384
    download_dir: Path = Path("~/.cache/lakerunner")
    maven_url: str = "https://repo1.maven.org/maven2"
    # --- secrets (never logged; `redacted()` hides them) ------------------------------------------
    internal_token: str = ""
    webhook_token: str = ""
    spark_token: str = ""
    webserver_token: str = ""
    webhook_hmac_key: str = ""
    query_key: str = ""
    azure_queue_sas_token: str = ""
    # --- object store -----------------------------------------------------------------------------
    s3_endpoint: str = ""
    s3_region: str = "us-east-1"
    s3_access_key_id: str = ""
    s3_secret_access_key: str = ""
    store_max_retries: int = 5
    store_timeout_s: float = 60.0
    # --- ingest -----------------------------------------------------------------------------------
    batch_max_bytes: int = 256 * MIB
    batch_max_objects: int = 500
    batch_max_age_s: float = 0.0
    cook_task_bytes: int = 64 * MIB
    cook_slice_bytes: int = 64 * MIB
    cook_claim_bytes: int = 2048 * MIB
    cook_memory_bytes: int = 4096 * MIB
    object_max_bytes: int = 4096 * MIB
    object_max_tries: int = 3
    cook_linger_s: float = 15.0
    cook_poll_s: float = 0.5
    cook_run_max_s: float = 300.0
    cook_job_max_s: float = 1800.0
    max_runs_in_flight: int = 1
    horizon: str = "2025-01-01"
    future_tolerance_s: int = 3600
    lease_s: float = 30.0
    run_start_s: float = 120.0
    heartbeat_s: float = 5.0
    sensor_max_messages: int = 5000
    sensor_interval_s: int = 3
    pending_max_bytes: int = 64 * 1024 * MIB
    # --- compaction -------------------------------------------------------------------------------
    merge_target_bytes: int = 1024 * MIB
    merge_memory_bytes: int = 192 * MIB
    merge_claim_bytes: int = 4096 * MIB
    compact_files: int = 32
    compact_close_s: int = 4500
    seal_after_s: int = 86_400
    planner_interval_s: int = 20
    # --- rollups ----------------------------------------------------------------------------------
    rollup_interval_s: int = 30
    rollup_memory_bytes: int = 192 * MIB
    rollup_overdue_s: int = 120
    span_metrics: bool = True
    derived_max_series: int = 10_000
    # --- sweeping ---------------------------------------------------------------------------------
    sweep_grace_s: int = 3600
    sweep_orphan_s: int = 86_400
    # --- open tables (`lakerunner tables`) --------------------------------------------------------
    tables_catalog: str = ""
    tables_every_s: int = 60
    tables_keep_s: int = 10_800
    tables_columns: int = 2000
    # --- notification queues (`lakerunner notifications`) ------------------------------------------
    sqs_queue_url: str = ""
    sqs_endpoint: str = ""
    sqs_visibility_s: int = 120
    pubsub_subscription: str = ""
    azure_queue_url: str = ""
    azure_queue_visibility_s: int = 120
    queue_wait_s: int = 20
    # --- push receivers ---------------------------------------------------------------------------
    receiver_bucket: str = ""
    receiver_collector: str = "push"
    receiver_body_max_bytes: int = 64 * MIB
    receiver_batch_bytes: int = 16 * MIB
    receiver_batch_age_s: float = 1.0
    receiver_puts_per_minute: int = 1500
    receiver_memory_bytes: int = 256 * MIB
    # --- query ------------------------------------------------------------------------------------
    query_timeout_s: float = 600.0
    query_default_limit: int = 100
    query_max_limit: int = 50_000
    query_max_series: int = 200_000
    query_max_samples: int = 50_000_000
    query_max_fetch_bytes: int = 0
    query_max_fetch_requests: int = 0
    query_features: str = (
        "promql-experimental-functions,promql-duration-expr,promql-extended-range-selectors,"
        "promql-binop-fill-modifiers"
    )
    query_default_window_s: int = 3600
    query_max_concurrency: int = 8
    query_max_tails: int = 10
    query_max_streams: int = 32
    query_postgres_connections: int = 100
    query_postgres_org_connections: int = 50
    query_postgres_idle_s: float = 3600.0
    query_postgres_plain_passwords: bool = False
    query_stall_s: float = 60.0
    query_index_max_age_s: float = 900.0
    query_index_memory_mb: int = 128
    query_sql_memory_mb: int = 512
    query_jobs_per_org: int = 20
    query_job_concurrency: int = 2
    query_job_max_s: float = 1800.0
    query_job_keep_s: float = 3600.0
    query_job_lease_s: float = 15.0
    query_job_start_s: float = 30.0
    query_job_memory_mb: int = 512
    query_log_days: int = 14
    cache_max_bytes: int = 10 * 1024 * MIB
    worker_memory_mb: int = 1024
    worker_answers_mb: int = 64
    worker_threads: int = 2
    worker_unit_cpu_s: float = 30.0
    worker_queue: int = 64
    # --- alerts -----------------------------------------------------------------------------------
    ruler_alertmanagers: str = ""
    ruler_webhooks: str = ""
    ruler_external_url: str = ""
    ruler_org_label: str = ""
    ruler_interval_s: float = 60.0
    ruler_resend_s: float = 60.0
    ruler_delay_s: float = 5.0
    ruler_max_delay_s: float = 120.0
    ruler_lease_s: float = 6.0
    ruler_concurrency: int = 8
    ruler_history_days: int = 30
    ruler_store_s: float = 10.0
    ruler_check_s: float = 300.0
    ruler_check_queries: int = 60
    # --- tail sampling (`lakerunner sampler run`) ---------------------------------------------------
    sampler_host: str = "127.0.0.1"
    sampler_port: int = 8080
    sampler_lease_s: float = 10.0
    sampler_poll_s: float = 1.0
    sampler_keep_days: int = 7
    # --- operations -------------------------------------------------------------------------------
    log_level: str = "INFO"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the environment, then `<data_dir>/stack.env`, then the defaults above."""
        env = dict(os.environ if environ is None else environ)
        given = {name: value for name, value in env.items() if name.startswith(PREFIX)}
        data_dir = Path(given.get("LAKERUNNER_DATA_DIR", DEFAULT_DATA_DIR)).absolute()
        remembered = read_env_file(data_dir / "stack.env")
        for name in RETIRED:
            remembered.pop(name, None)
        values = {**remembered, **given, "LAKERUNNER_DATA_DIR": str(data_dir)}
        return cls(**_parse(values))

    def child_environment(self) -> dict[str, str]:
        """Return the environment in which a child process loads exactly these settings."""
        return {PREFIX + f.name.upper(): _unparse(getattr(self, f.name)) for f in fields(self)}

    @property
    def watchdog_beat(self) -> Path:
        """File that the watchdog of a local stack touches after each look."""
        return self.data_dir / "run" / "watchdog.beat"

    @property
    def jobs_beat(self) -> Path:
        """File that the `query-jobs` process of a local stack touches after each look."""
        return self.data_dir / "run" / "query-jobs.beat"

    @property
    def ruler_beat(self) -> Path:
        """File that the `ruler` process of a local stack touches after each heartbeat."""
        return self.data_dir / "run" / "ruler.beat"

    @property
    def explore_url(self) -> str:
        """Address of the Explore page, as notifications name it."""
        return self.ruler_external_url or f"http://{self.query_host}:{self.query_port}"

    def redacted(self) -> dict[str, str]:
        """Return every field, secrets replaced by stars, for logs and `doctor`."""
        return {
            f.name: "***" if _is_secret(f.name) and getattr(self, f.name) else _unparse(getattr(self, f.name))
            for f in fields(self)
        }

    def require(self, name: str) -> str:
        """Return the text setting `name`, or raise a clear error when it was never configured."""
        value = getattr(self, name)
        if not value:
            raise SettingsError(
                f"{PREFIX}{name.upper()} is not set and no stack is running on {self.data_dir}; "
                "start one with `lakerunner up` or set the variable"
            )
        return str(value)


def credentials(ref: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the object store options of a `storage_profile.credentials_ref`.

    `LAKERUNNER_CREDENTIALS_PROD_ACCESS_KEY_ID=x` gives `{"access_key_id": "x"}` for ref `prod`.
    """
    env = os.environ if environ is None else environ
    prefix = f"{CREDENTIAL_PREFIX}{ref.upper().replace('-', '_')}_"
    found = {k[len(prefix) :].lower(): v for k, v in env.items() if k.startswith(prefix)}
    if not found:
        raise SettingsError(f"credentials_ref {ref!r}: no variable starts with {prefix}")
    return found


def process_environment() -> dict[str, str]:
    """Copy the whole environment, for starting child processes."""
    return dict(os.environ)


def read_env_file(path: Path) -> dict[str, str]:
    """Read `NAME=value` lines; a missing file is an empty environment (no stack was started here)."""
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _parse(values: Mapping[str, str]) -> dict[str, Any]:
    types = get_type_hints(Settings)
    parsed: dict[str, Any] = {}
    for name, text in values.items():
        if name.startswith(CREDENTIAL_PREFIX):
            continue
        field = name[len(PREFIX) :].lower()
        if field not in types:
            raise SettingsError(f"{name}: no such setting (see docs/reference/settings.md)")
        parsed[field] = _convert(name, text, types[field])
    return parsed


def _convert(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() in {"1", "true", "yes", "on"}:
            return True
        if text.lower() in {"0", "false", "no", "off", ""}:
            return False
        raise SettingsError(f"{name}: expected true or false, found {text!r}")
    try:
        return kind(text)
    except ValueError as error:
        raise SettingsError(f"{name}: expected {kind.__name__}, found {text!r}") from error


def _unparse(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_secret(name: str) -> bool:
    return name.endswith(
        ("_token", "_key", "_dsn", "access_key_id", "_alertmanagers", "_webhooks", "_catalog")
    )

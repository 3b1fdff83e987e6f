# ruff: noqa: INP001, SLF001 - a script beside its output, which walks argparse from within
"""Writes `cli.md`, `settings.md` and tables of `rewriting.md`: `.venv/bin/python docs/reference/generate.py`.

Options come from the argument parsers, names and defaults from the fields of `Settings`; only the meaning of
a setting is written here. A setting without a meaning, or a page that is out of date, fails
tests/architecture/test_docs.py.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

from lakerunner_cli.main import _parser
from lakerunner_query.plan import rewrite_logql, rewrite_promql, rewrite_traceql
from resources.settings import PREFIX, Settings

HERE = Path(__file__).parent
TYPES = {"str": "text", "int": "integer", "float": "number", "bool": "true/false", "Path": "path"}

MEANINGS: dict[str, dict[str, str]] = {
    "Where things are": {
        "data_dir": "Directory of the local stack. `--data-dir` wins over it.",
        "index_dsn": "PostgreSQL of the segment index, `postgresql://user:password@host:port/database`.",
        "lake_url": "Where segments are written: `file:///dir`, `s3://bucket/prefix`, `gs://…`, `az://…`. "
        "`lakerunner up` uses `<data_dir>/lake` unless `--lake` or the environment names another, which it "
        "remembers.",
        "kafka_bootstrap": "Kafka brokers, `host:port[,host:port]`.",
        "kafka_cluster": "Name under which read offsets are kept in the index; change it with the cluster.",
        "spark_remote": "Spark Connect server, `sc://host:port`. Empty: a classic local session per run.",
        "ingress_host": "Address the ingress binds to.",
        "ingress_port": "Port of the ingress.",
        "ingress_grpc_port": "Port of the ingress for OTLP/gRPC, which its other port takes, too; 0 is none.",
        "query_host": "Address the query API binds to.",
        "query_port": "Port of the query API and of its Explore page.",
        "query_flight_port": "Port on which the query API answers SQL over Arrow Flight. 0: closed; "
        "`lakerunner up` opens it.",
        "query_postgres_port": "Port on which the query API answers SQL over PostgreSQL's protocol. "
        "0: closed; `lakerunner up` opens it.",
        "query_tls_certificate": "File with the certificate chain (PEM) of the SQL doors of the query API, "
        "Arrow Flight among them. Empty: they speak without TLS.",
        "query_tls_key": "File with the private key of that certificate.",
        "allowed_hosts": "Names, comma-separated, under which ingress, query API and the local Dagster "
        "answer besides those of this machine (`localhost`, `127.0.0.1`, `::1`). Empty: a server bound to "
        "another address than loopback answers under every name.",
        "worker_host": "Address a query worker binds to.",
        "worker_port": "Port of a query worker; the local stack's second worker takes the next free one.",
        "worker_urls": "Where the query API finds its workers, comma-separated: `http://host:port`; "
        "`dns://name:port`, every address of the name; `index://`, every worker that registered. "
        "Empty: one worker at `worker_host:worker_port`.",
        "worker_advertise_url": "URL under which a worker registers in the index; it needs `index_dsn`. "
        "Empty: it does not register.",
        "worker_lease_s": "Seconds without a heartbeat after which a registered worker counts as gone.",
        "http_keep_alive_s": "Seconds that ingress, query API and workers keep an idle connection open. "
        "Keep it above the idle time of a load balancer in front, and above the interval of senders.",
        "webserver_port": "Port of Dagster's web server in the local stack.",
    },
    "Local stack": {
        "postgres_port": "Port of the local PostgreSQL.",
        "kafka_port": "Port of the local Kafka; its controller takes the next free one.",
        "spark_port": "Port of the local Spark Connect server.",
        "spark_cores": "Cores of the local Spark server; 0 means all of the machine.",
        "spark_memory_mb": "Heap of the local Spark server. Python workers come on top.",
        "kafka_memory_mb": "Heap of the local Kafka.",
        "download_dir": "Cache of downloaded jars, shared by all stacks of a user.",
        "maven_url": "Where Kafka's jars come from; a mirror works.",
    },
    "Secrets": {
        "internal_token": "Shared by query API and query workers. `lakerunner up` makes one.",
        "spark_token": "Token of the Spark Connect server. Sent without TLS only if `spark_remote` names the "
        "host `localhost`. `lakerunner up` makes one.",
        "query_key": "API key that `lakerunner query` and `lakerunner sql` send unless `--key` names one.",
        "webserver_token": "Key of Dagster's web server in the local stack. `lakerunner up` makes one.",
        "webhook_token": "Bearer token that may announce objects of every organisation. "
        "`lakerunner up` makes one.",
    },
    "Object store": {
        "s3_endpoint": "Endpoint of an S3 look-alike, for stores without a `credentials_ref`. "
        "Empty: AWS. `http://` allows plain HTTP.",
        "s3_region": "Region for S3.",
        "s3_access_key_id": "Key id for S3; empty: the default credential chain.",
        "s3_secret_access_key": "Secret for S3.",
        "store_max_retries": "Tries after a failed request that is worth another try.",
        "store_timeout_s": "Time limit of one request.",
    },
    "Ingestion": {
        "batch_max_bytes": "A batch is full at so many bytes of raw objects.",
        "batch_max_objects": "A batch is full at so many objects.",
        "batch_max_age_s": "A batch that is not full is made when its oldest object has waited so long.",
        "cook_task_bytes": "Raw bytes that one Spark task gets, if there are that many.",
        "pending_max_bytes": "With so many raw bytes of a signal pending, its topic is not read until some "
        "are done.",
        "cook_slice_bytes": "Rows in memory per task before a segment is written; large objects are decoded "
        "in slices of half of it. "
        "Large objects give several segments per hour because of it.",
        "cook_claim_bytes": "Raw bytes a run claims at a time.",
        "cook_memory_bytes": "Memory a cooking process may take; an object that needs more to read fails.",
        "object_max_bytes": "Largest raw object, after decompression; a larger one fails.",
        "object_max_tries": "Failures after which an object is parked.",
        "cook_linger_s": "How long a cooking run stays for further work after its last batch.",
        "cook_poll_s": "How often a lingering run looks for due batches.",
        "cook_job_max_s": "A Spark job that takes longer is interrupted and counts as a crash of its batch.",
        "cook_run_max_s": "A run takes no further batches after this time.",
        "max_runs_in_flight": "Cooking runs of one signal that may exist at once.",
        "horizon": "First date (UTC) of partitions; events up to it go to quarantine.",
        "future_tolerance_s": "Events later than the end of their arrival hour plus this go to quarantine.",
        "run_start_s": "A run without any event this long before its first heartbeat is given up; twice as "
        "long after each slow start, and 32 times as long while its process lives.",
        "lease_s": "A claim, or a run, without a heartbeat for this long is given up.",
        "heartbeat_s": "How often a run says that it lives.",
        "sensor_max_messages": "Kafka messages read per sensor tick.",
        "sensor_interval_s": "Least time between two ticks of an ingest sensor.",
    },
    "Compaction": {
        "merge_target_bytes": "A merged segment is ended, and another begun, at this size. Segments of half "
        "of it and more are left alone.",
        "merge_memory_bytes": "Decoded rows in a merging task; its memory is two to three times that.",
        "merge_claim_bytes": "Segment bytes that one round of merging takes.",
        "compact_files": "So many segments of one size class are merged while their hour is still open.",
        "compact_close_s": "How long after its end an hour counts as closed: the rest of it is then merged.",
        "seal_after_s": "How long after its end a day (month, for 1d rollups) of metrics is sealed.",
        "planner_interval_s": "Least time between two looks for segments to merge.",
    },
    "Rollups": {
        "rollup_interval_s": "Least time between two looks for changed partitions: a partition is rolled up "
        "at most so often.",
        "rollup_memory_bytes": "Decoded rows in a rollup task; its memory is two to three times that.",
        "rollup_overdue_s": "A rollup that has been due for so long is requested whatever lineage says.",
        "span_metrics": "Whether metrics and the service graph are derived from spans.",
        "derived_max_series": "Series that a derived metric may have in an hour; with more it has none.",
    },
    "Sweeping": {
        "sweep_grace_s": "Files of retired segments are deleted this long after they were retired; must be "
        "longer than the longest query.",
        "sweep_orphan_s": "Files that no segment knows are deleted this long after they were first seen.",
    },
    "Open tables": {
        "tables_catalog": "Catalog of open tables as properties of pyiceberg, `NAME=VALUE;NAME=VALUE`: "
        "`type=rest;uri=https://…;warehouse=…`. Empty: the database of the index, schema "
        "`lakerunner_tables`.",
        "tables_every_s": "A table with changes is updated when its newest snapshot is this old.",
        "tables_keep_s": "Older snapshots expire, and the sweeper may delete files that only they name.",
        "tables_columns": "Limit of attributes in the schema of a table; others are left out.",
    },
    "Notification queues": {
        "sqs_queue_url": "Address of the SQS queue that `lakerunner notifications sqs` takes from.",
        "sqs_endpoint": "Endpoint of an SQS look-alike, which gets `s3_access_key_id` and "
        "`s3_secret_access_key` if they are set. Empty: AWS, with boto3's default credentials.",
        "sqs_visibility_s": "How long SQS hides a received message from other pollers; at least a few times "
        "what ten messages take while Kafka is down.",
        "pubsub_subscription": "`projects/PROJECT/subscriptions/NAME`, for `lakerunner notifications "
        "pubsub`; with `http://HOST:PORT/v1/` in front, an emulator's.",
        "azure_queue_url": "`https://ACCOUNT.queue.core.windows.net/QUEUE`, for "
        "`lakerunner notifications azure-queue`.",
        "azure_queue_sas_token": "SAS token of that queue with the permissions `u` and `p`. Secret.",
        "azure_queue_visibility_s": "As `sqs_visibility_s`, for the Azure queue.",
        "queue_wait_s": "How long a request waits for messages (SQS: at most 20); stopping a poller takes as "
        "long. An Azure queue cannot wait and is asked every 2 s, or as often as this says.",
        "webhook_hmac_key": "Key of requests to the webhooks that are signed (`X-Lakerunner-Signature`); "
        "they may announce objects of every organisation. Empty: none are accepted. Secret.",
    },
    "Push receivers": {
        "receiver_bucket": "Bucket that pushed data is written to. Empty: the only registered one; "
        "with several, pushes are answered with 503 until this is set.",
        "receiver_collector": "Collector of pushed data, if the header `X-Lakerunner-Collector` names none.",
        "receiver_body_max_bytes": "Largest request, as sent and once opened; more is answered with 413.",
        "receiver_batch_bytes": "Requests are gathered into one raw object up to so many bytes, before "
        "compression.",
        "receiver_batch_age_s": "A raw object is written at the latest when its first request has waited so "
        "long; no request is answered before its object is durable.",
        "receiver_puts_per_minute": "Raw objects per minute and process up to which requests do not wait to "
        "be gathered: one is written at once, or with others as soon as the object before it is durable. "
        "Beyond, they wait for each other up to `receiver_batch_age_s`; 0: always that long.",
        "receiver_memory_bytes": "Bytes of requests in flight, as sent and once opened; "
        "beyond it they are answered with 429.",
    },
    "Queries": {
        "query_timeout_s": "Time limit of one query.",
        "query_default_limit": "Rows when a request does not say.",
        "query_max_limit": "Most rows a request may ask for; more is answered with 422.",
        "query_max_series": "Series that one selector of a metric query may match; more are a 422.",
        "query_max_samples": "Samples that one selector may load for one part of a query, and points of "
        "an answer.",
        "query_features": "Parts of PromQL that Prometheus has behind switches, by its names for them.",
        "query_default_window_s": "Time range when a request does not say.",
        "query_max_concurrency": "Queries of one organisation at a time; others wait up to 30 s, then 429.",
        "query_index_max_age_s": "Age in seconds of what is known of the segment index up to which queries "
        "are answered while PostgreSQL is away; the answers say so. 0: never.",
        "query_index_memory_mb": "Memory of a query API for that: rows of the intervals that were asked for "
        "in the last half hour.",
        "query_sql_memory_mb": "Memory of the DuckDB that finishes SQL statements in a query API; what does "
        "not fit spills to disk.",
        "query_jobs_per_org": "Statements of one organisation that may wait for Spark or run there; one "
        "more is answered with 429.",
        "query_job_concurrency": "Statements that one `query-jobs` process drives on Spark at a time.",
        "query_job_max_s": "Seconds for one statement on Spark. Less than `sweep_grace_s`: the segments "
        "that it was planned with must still be there.",
        "query_job_keep_s": "Seconds for which the result of a statement on Spark is kept under its id.",
        "query_job_lease_s": "Seconds without a heartbeat after which another `query-jobs` process takes a "
        "statement over.",
        "query_job_start_s": "Seconds for which a statement waits for a `query-jobs` process to look; then "
        "the caller is told that there is none.",
        "query_job_memory_mb": "Memory of each DuckDB in Spark's Python workers, for scans and for "
        "functions.",
        "query_log_days": "Days for which is kept how often queries were asked that derived metrics could "
        "serve, for `lakerunner rules suggest`. 0: nothing is kept.",
        "query_stall_s": "Seconds for which a stream of events waits for a client that takes nothing; then "
        "the connection is closed, and the client can go on behind its last event. 0: for ever.",
        "query_max_fetch_bytes": "Bytes that one query may fetch from the object store; beyond it is "
        "answered with 422. What workers have in their caches costs nothing. 0: any number.",
        "query_max_fetch_requests": "The same for requests to the object store.",
        "query_max_tails": "Live tails of one organisation at a time; a further one is answered with 429.",
        "query_max_streams": "Results that one organisation may read at a time over Arrow Flight; a further "
        "one is refused.",
        "query_postgres_connections": "Sessions of PostgreSQL clients that one query API holds.",
        "query_postgres_org_connections": "How many of them one organisation may have.",
        "query_postgres_idle_s": "Seconds after which a PostgreSQL session that asks nothing is ended. "
        "0: never.",
        "query_postgres_plain_passwords": "Whether PostgreSQL clients on other machines may send their key "
        "without TLS. Where a proxy in front ends TLS, they may.",
        "cache_max_bytes": "Segments each query worker keeps on local disk.",
        "worker_answers_mb": "Memory of a worker for answers to parts of PromQL queries, which are good "
        "as long as no segment changes; 0: none.",
        "worker_memory_mb": "Memory of a worker's DuckDB; beyond it, it spills to disk.",
        "worker_threads": "Threads of a worker; one more starts the first unit of an organisation while "
        "others hold them.",
        "worker_unit_cpu_s": "CPU seconds that one part of a query may use on a worker; beyond it the query "
        "is answered with 422, and a reader process that does not let go of the part is replaced.",
        "worker_queue": "Parts of queries of one organisation that may wait at a worker; further ones go to "
        "other workers.",
    },
    "Alerts": {
        "ruler_alertmanagers": "Alertmanagers that all alerts are sent to, comma-separated: "
        "`https://[user:password@]host:port[/prefix]`. The organisation travels as `X-Scope-OrgID`.",
        "ruler_webhooks": "Addresses, comma-separated, that are told once when an alert fires, and once when "
        "it no longer does.",
        "ruler_external_url": "Address of this query API for people, for links in notifications and "
        "`externalURL` of templates. Empty: `http://query_host:query_port`.",
        "ruler_org_label": "Label that carries the organisation in notifications, for an Alertmanager that "
        "several of them share. Empty: none does.",
        "ruler_interval_s": "Seconds between evaluations of groups that name no interval.",
        "ruler_resend_s": "Seconds after which an Alertmanager is told again of an alert that still fires.",
        "ruler_delay_s": "Seconds that alerts look back at least, for data that is still arriving. More is "
        "used where the arrivals of the last minutes took longer.",
        "ruler_max_delay_s": "Longest such delay.",
        "ruler_lease_s": "Seconds without a heartbeat after which other `ruler` processes take over the "
        "groups of one.",
        "ruler_concurrency": "Groups that one `ruler` process evaluates at a time.",
        "ruler_history_days": "Days for which changes and corrections of alerts are kept.",
        "ruler_store_s": "Seconds for which the series of alerts are gathered before they become an object.",
        "ruler_check_s": "Seconds after which alerts over records that came late are checked again.",
        "ruler_check_queries": "Queries that a `ruler` process makes for that in half a minute; the others "
        "wait.",
    },
    "Tail sampling": {
        "sampler_host": "Address on which `lakerunner sampler run` serves HTTP; beyond loopback, decisions "
        "need a key.",
        "sampler_port": "Its port.",
        "sampler_lease_s": "Seconds without a heartbeat after which another process takes a sampler over.",
        "sampler_poll_s": "Seconds between two looks for new commits.",
        "sampler_keep_days": "Days for which decisions and refused traces are kept; more than traces grow.",
    },
    "Operations": {
        "log_level": "`DEBUG`, `INFO`, `WARNING` or `ERROR`, for ingress, query API, workers and watchdog.",
    },
}

NOTES = {
    "ingest": "Only logs as OTLP protobuf (`.binpb`, `.binpb.gz`, `.binpb.zst`) become queryable today. "
    "Other formats are uploaded and then parked; metrics and traces wait in their topics, and `--wait` runs "
    "into its timeout.",
}
"""What a command's own help does not say."""

SETTINGS_HEAD = """\
# Settings

Every setting is an environment variable. A value that is not in the environment is looked up in
`<data_dir>/stack.env`, which `lakerunner up` writes, so that commands typed in another shell find the running
stack. An unknown `LAKERUNNER_*` name is an error.

Credentials of a bucket that has its own (`lakerunner admin bucket add … --credentials REF`) are variables
`LAKERUNNER_CREDENTIALS_<REF>_<OPTION>`, for example `LAKERUNNER_CREDENTIALS_PROD_ACCESS_KEY_ID`,
`…_SECRET_ACCESS_KEY`, `…_REGION`, `…_ENDPOINT`. `REF` is written in upper case, with `_` for `-`. They are
read from the environment only, never from `stack.env`.

This page is generated from `resources/settings.py` by `docs/reference/generate.py`.
"""
CLI_HEAD = """\
# Command line

`lakerunner COMMAND [options]`. `--data-dir DIR`, before or after the command, is the directory of the local
stack (default: `LAKERUNNER_DATA_DIR`, else `./.lakerunner`). Exit code 0 is success, 1 a negative answer (not
ready, refused, parked), 2 a mistake that the printed line explains, 130 an interruption.

This page is generated from the argument parsers by `docs/reference/generate.py`.
"""


def settings_page() -> str:
    """Raises `KeyError` for a setting nobody described, and for a description of nothing."""
    known = {field.name: field for field in fields(Settings)}
    described = [name for section in MEANINGS.values() for name in section]
    if missing := sorted(set(known) ^ set(described)):
        raise KeyError(f"docs/reference/generate.py: describe, or no longer describe, {', '.join(missing)}")
    types = get_type_hints(Settings)
    lines = [SETTINGS_HEAD]
    for title, section in MEANINGS.items():
        lines += [f"## {title}", "", "| variable | type | default | meaning |", "|---|---|---|---|"]
        for name, meaning in section.items():
            kind = TYPES[types[name].__name__]
            default = _shown(known[name].default)
            lines.append(f"| `{PREFIX}{name.upper()}` | {kind} | {default} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, int) and default >= 1 << 20 and default % (1 << 20) == 0:
        return f"`{default}` ({default >> 20} MiB)"
    return f"`{default}`" if str(default) else "empty"


def cli_page() -> str:
    lines = [CLI_HEAD]
    for name, parser in leaves(_parser()):
        said = parser.description or ""
        lines += [f"## `lakerunner {name}`", "", said[:1].upper() + said[1:], ""]
        lines += [NOTES[name], ""] if name in NOTES else []
        rows = [_option(action) for action in parser._actions if _is_shown(action)]
        if rows:
            lines += ["| argument | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def leaves(parser: ArgumentParser, name: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Every command that can be run, with its full name."""
    nested = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not nested:
        yield name, parser
    for action in nested:
        for word, child in action.choices.items():
            yield from leaves(child, f"{name} {word}".strip())


def _is_shown(action: Action) -> bool:
    return action.help != SUPPRESS and action.dest not in {"help", "data_dir"}


def _option(action: Action) -> str:
    value = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else "")
    if action.option_strings:
        text = ", ".join(action.option_strings)
        text += f" {value or action.dest.upper()}" if action.nargs != 0 else ""
    else:
        text = str(value or action.dest)
        text = {"+": f"{text} …", "*": f"[{text} …]", "?": f"[{text}]"}.get(str(action.nargs), text)
    return f"| `{text.replace('|', '/')}` | {_meaning(action)} |"


def _meaning(action: Action) -> str:
    said = [str(action.help)] if action.help else []
    if action.required and action.option_strings:
        said.append("required")
    told = "default" in (action.help or "")
    if action.option_strings and not told and action.default not in (None, False, "", []):
        said.append(f"default `{action.default}`")
    return "; ".join(said)


GUARDS = {"logql": rewrite_logql, "traceql": rewrite_traceql, "promql": rewrite_promql}
_GUARD_TABLE = re.compile(r"<!-- guards: ([a-z]+) -->\n(?:\n\|[^\n]*(?:\n\|[^\n]*)*\n)?")


def rewriting_page() -> str:
    """Return the page on rewriting with the tables of guards in their places; the rest is written there."""

    def table(found: re.Match[str]) -> str:
        rows = "\n".join(f"| `{one.name}` | {one.demand} |" for one in GUARDS[found[1]].GUARDS)
        return f"<!-- guards: {found[1]} -->\n\n| guard | must hold |\n|---|---|\n{rows}\n"

    return _GUARD_TABLE.sub(table, (HERE / "rewriting.md").read_text())


PAGES = {"settings.md": settings_page, "cli.md": cli_page, "rewriting.md": rewriting_page}

if __name__ == "__main__":
    for file, page in PAGES.items():
        (HERE / file).write_text(page())

"""Each line about security in the documentation has a test that holds it to its word."""

from __future__ import annotations

import re
from pathlib import Path

from lakerunner_cli.stack.components import COMPONENTS, OPTIONAL

ROOT = Path(__file__).parents[3]
STACK, WEB = "tests/integration/test_stack.py", "tests/unit/lakerunner_cli/test_dagster_webserver.py"
HOSTS = "tests/unit/resources/test_http_server.py"
PROOFS = {
    "postgres": (STACK, "test_postgres_asks_for_its_password"),
    "kafka": (STACK, "test_everything_listens_on_loopback_alone"),
    "spark": (
        STACK,
        "test_spark_answers_nobody_without_its_token",
        "test_internal_ports_of_spark_ask_for_a_secret",
    ),
    "code_server": (STACK, "test_dagster_runs_on_its_own_database"),
    "webserver": (WEB, "test_nothing_else_does", "test_subscriptions_need_the_key_too"),
    "daemon": (STACK, "test_dagster_runs_on_its_own_database"),
    "query_jobs": (STACK, "test_dagster_runs_on_its_own_database"),
    "ruler": (STACK, "test_dagster_runs_on_its_own_database"),
    "watchdog": (STACK, "test_dagster_runs_on_its_own_database"),
    "shop": ("tests/unit/lakerunner_cli/test_demo.py", "test_the_shop_goes_on_until_its_plan_is_gone"),
    "ingress": (
        "tests/unit/lakerunner_ingress/test_notifications.py",
        "test_a_key_learns_nothing_about_what_is_not_its_own",
        "test_without_a_configured_token_nobody_is_the_webhook",
    ),
    "query_api": ("tests/integration/query/test_log_queries.py", "test_no_or_wrong_key"),
    "query_worker_1": ("tests/integration/query/test_failures.py", "test_workers_refuse_strangers"),
    "query_worker_2": ("tests/integration/query/test_failures.py", "test_workers_refuse_strangers"),
    "mode 600": (STACK, "test_secrets_are_private", "test_files_are_private"),
    "421": (HOSTS, "test_pages_of_the_web_reach_no_server_under_a_name_of_their_own"),
}


def _section() -> str:
    page = (ROOT / "docs" / "operations.md").read_text()
    return page.split("### Security of the local stack")[1].split("\n### ")[0]


def test_every_component_is_in_the_table_and_has_a_proof() -> None:
    rows = [line.split("|")[1] for line in _section().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {component.name for component in (*COMPONENTS, *OPTIONAL)}
    assert named <= PROOFS.keys()


def test_proofs_are_tests_that_exist() -> None:
    for name, (file, *tests) in PROOFS.items():
        assert name in _section()
        text = (ROOT / file).read_text()
        for test in tests:
            assert f"def {test}" in text, (file, test)

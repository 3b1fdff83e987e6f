"""Keys and the questions about raw objects, on a real PostgreSQL."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from lakerunner_cli.accounts import bucket_profile, create_key, create_org, key_hash, open_index, replace_key
from lakerunner_cli.command import CommandError
from lakerunner_cli.commands import admin
from resources.index.types import Intake, ObjectNotice, ObjectState
from resources.lake.layout import Signal
from resources.lake.timecut import HOUR_NS
from resources.settings import Settings

pytestmark = pytest.mark.integration


@pytest.fixture
def settings(index_dsn: str) -> Settings:
    return Settings(index_dsn=index_dsn)


def test_a_key_lives_until_it_is_replaced(settings: Settings) -> None:
    with open_index(settings) as desk:
        assert create_org(desk, "acme")
        first = create_key(desk, "acme", "read", "demo", "30d")
        assert desk.find_api_key(key_hash(first))
        second = replace_key(desk, "acme", "write", "demo")
        assert desk.find_api_key(key_hash(first)) is None
        found = desk.find_api_key(key_hash(second))
        assert found is not None
        assert found.role == "write"


def test_a_second_live_key_of_one_name_is_refused_in_words(settings: Settings) -> None:
    parser = ArgumentParser()
    admin.configure(parser)
    with open_index(settings) as desk:
        create_org(desk, "acme")
    args = parser.parse_args(["key", "create", "--org", "acme", "--name", "ci"])
    assert admin.run(args, settings) == 0
    with pytest.raises(CommandError, match="revoke it first"):
        admin.run(args, settings)


def test_object_states_parked_and_freshness(settings: Settings) -> None:
    notices = [
        ObjectNotice("raw", f"otel-raw/acme/c/logs/{n}", "acme", "c", Signal.LOGS, 500_000 * HOUR_NS, 1)
        for n in range(3)
    ]
    with open_index(settings) as desk:
        create_org(desk, "acme")
        bucket_profile(desk, "raw", settings)
        desk.take_in(Intake("local", tuple(notices)))
        found = desk.object_states("raw", [n.key for n in notices] + ["unknown"])
        assert {status.state for status in found} == {ObjectState.REGISTERED}
        assert len(found) == 3
        assert desk.parked_objects("acme") == []
        assert desk.newest_queryable_ns("acme", "logs") is None


def test_an_absent_index_is_one_line_for_a_person() -> None:
    dsn = "postgresql://nobody@127.0.0.1:9/none"
    with (
        pytest.raises(CommandError, match="is the stack running"),
        open_index(Settings(index_dsn=dsn)) as desk,
    ):
        desk.organisations()


def test_settings_are_chosen_listed_and_removed_by_command(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = ArgumentParser()
    admin.configure(parser)
    with open_index(settings) as desk:
        create_org(desk, "acme")

    def run(*arguments: str) -> str:
        assert admin.run(parser.parse_args(["setting", *arguments]), settings) == 0
        return capsys.readouterr().out

    run("set", "acme", "metric_naming", "verbatim")
    run("set", "acme", "fields", '{"message": ["text"], "service": ["app_id"]}')
    run("set", "acme", "ingest_bytes_per_minute", "2000000000")
    assert run("list", "acme").splitlines() == [
        'fields = {"message": ["text"], "service": ["app_id"]}',
        "ingest_bytes_per_minute = 2000000000",
        'metric_naming = "verbatim"',
    ]
    run("remove", "acme", "metric_naming")
    assert "metric_naming" not in run("list", "acme")
    for wrong in (
        ["set", "acme", "metric_naming", "loud"],
        ["set", "acme", "no_such", "1"],
        ["set", "nobody", "metric_naming", "verbatim"],
        ["remove", "acme", "metric_naming"],
    ):
        with pytest.raises(CommandError):
            admin.run(parser.parse_args(["setting", *wrong]), settings)

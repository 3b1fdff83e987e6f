"""`lakerunner backfill`: what is asked of Dagster, in words that its schema knows, and what a person sees."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from lakerunner_cli.backfill import documents
from lakerunner_cli.backfill.dagster_api import (
    AssetProgress,
    BackfillState,
    Dagster,
    DagsterAwayError,
    RunState,
    over_http,
)
from lakerunner_cli.backfill.follow import PATIENCE, Bars, follow, summary
from lakerunner_cli.backfill.request import (
    BackfillRequest,
    Launch,
    Partitions,
    assets_of,
    format_hour,
    parse_hour,
    parse_request,
    plan_launches,
)
from lakerunner_cli.command import CommandError
from lakerunner_cli.commands import backfill
from lakerunner_cli.main import main
from lakerunner_cli.stack.paths import StackPaths
from lakerunner_cli.stack.processes import ProcessId
from lakerunner_cli.stack.state import ComponentState, Phase, StackState, StateFile, acquire
from resources.lake.layout import Signal
from resources.lake.timecut import DAY_NS, HOUR_NS
from resources.settings import Settings

DAY = parse_hour("2026-01-02")
KNOWN = Partitions(("acme", "beta"), parse_hour("2026-01-01"), parse_hour("2026-01-03T09"))
HOURLY_METRICS = [
    "raw/metrics", "cooked/metrics", "compacted/metrics", "materialized/metrics", "recorded/metrics",
    "rollup/10s", "rollup/1m", "rollup/5m", "rollup/1h",
]  # fmt: skip


def wanted(
    orgs: str = "acme", signal: str = "logs", start: str = "2026-01-02T05", end: str = "2026-01-02T07", **more
) -> BackfillRequest:
    given = {"tiers": "", "allow_loss": False, "force": False, **more}
    return parse_request(orgs, signal, start, end, **given)


def plan_launch(wanted: BackfillRequest, known: Partitions) -> Launch:
    (launch,) = plan_launches(wanted, known)
    return launch


def paths(signal: Signal, *tiers: str) -> list[str]:
    return ["/".join(path) for path in assets_of(signal, tiers)]


# --- what is asked for ------------------------------------------------------------------------------


def test_hours_are_named_by_their_start_and_the_last_is_not_in_it() -> None:
    launch = plan_launch(wanted(), KNOWN)
    assert launch.partitions == ("2026-01-02-05:00|acme", "2026-01-02-06:00|acme")
    assert launch.tags == {}
    assert launch.title == "logs of acme, 2026-01-02T05 to 2026-01-02T07"


def test_a_day_is_its_24_hours() -> None:
    launch = plan_launch(wanted(start="2026-01-02", end="2026-01-03"), KNOWN)
    assert len(launch.partitions) == 24
    assert launch.partitions[0] == "2026-01-02-00:00|acme"
    assert launch.partitions[-1] == "2026-01-02-23:00|acme"


def test_all_tiers_of_the_signal_unless_some_are_named() -> None:
    assert wanted().tiers == ("raw", "cooked", "compacted", "materialized")
    assert wanted(signal="metrics").tiers == (
        *("raw", "cooked", "compacted", "materialized", "recorded", "rollups"),
    )
    assert wanted(signal="metrics", tiers="rollups, raw").tiers == ("raw", "rollups")
    assert paths(Signal.METRICS, *wanted(signal="metrics").tiers) == [*HOURLY_METRICS, "rollup/1d"]
    assert paths(Signal.TRACES, "cooked") == ["cooked/traces"]
    assert paths(Signal.METRICS, "rollups")[0] == "rollup/10s"


def test_hours_of_a_day_that_is_not_over_go_without_the_day() -> None:
    whole, rest = plan_launches(wanted(signal="metrics", start="2026-01-02T20", end="2026-01-03T03"), KNOWN)
    assert ("rollup", "1d") in whole.assets
    assert (whole.partitions[0], whole.partitions[-1]) == ("2026-01-02-20:00|acme", "2026-01-02-23:00|acme")
    assert rest.assets == tuple(path for path in whole.assets if path != ("rollup", "1d"))
    assert (rest.partitions[0], rest.partitions[-1]) == ("2026-01-03-00:00|acme", "2026-01-03-02:00|acme")
    today = plan_launch(wanted(signal="metrics", start="2026-01-03T01", end="2026-01-03T03"), KNOWN)
    assert ("rollup", "1d") not in today.assets
    over = Partitions(KNOWN.orgs, KNOWN.first_ns, parse_hour("2026-01-03T23"))
    assert ("rollup", "1d") in plan_launch(
        wanted(signal="metrics", start="2026-01-02T20", end="2026-01-04"), over
    ).assets
    assert len(plan_launch(wanted(start="2026-01-02T20", end="2026-01-03T03"), KNOWN).partitions) == 7
    assert (
        len(plan_launch(wanted(signal="metrics", tiers="raw,cooked", end="2026-01-03T03"), KNOWN).assets) == 2
    )


def test_several_organisations_and_all_of_them() -> None:
    assert plan_launch(wanted("beta,acme"), KNOWN).partitions[0] == "2026-01-02-05:00|beta"
    everybody = plan_launch(wanted("all", signal="metrics", force=True), KNOWN)
    assert {key.partition("|")[2] for key in everybody.partitions} == {"acme", "beta"}
    assert "2 organisations" in everybody.title
    assert everybody.tags == {"lakerunner/force": "true"}
    assert plan_launch(wanted(allow_loss=True), KNOWN).tags == {"lakerunner/allow_loss": "true"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"end": "2026-01-02T05"}, "TO (2026-01-02T05) must be later than FROM (2026-01-02T05)"),
        ({"start": "yesterday"}, "'yesterday' is no hour: expected 2026-01-02T05 or 2026-01-02"),
        ({"tiers": "rollups"}, "logs have no tier rollups: expected some of raw,cooked,compacted"),
        ({"tiers": "raw,cokked"}, "cokked"),
        ({"orgs": " , "}, "no organisation given"),
        ({"tiers": "raw", "force": True}, "--force says how `rollups` are rebuilt"),
        ({"tiers": "raw", "allow_loss": True}, "--allow-loss says how `cooked` is rebuilt"),
    ],
)
def test_what_cannot_be_meant_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandError) as error:
        wanted(**given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"orgs": "acme,nobody"}, "no partitions of nobody; there are some of: acme, beta"),
        ({"start": "2025-12-31T23"}, "before the horizon: partitions begin at 2026-01-01T00"),
        ({"end": "2026-01-03T11"}, "TO may be 2026-01-03T10 at most"),
    ],
)
def test_what_dagster_has_no_partitions_for_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(CommandError) as error:
        plan_launch(wanted(**given), KNOWN)
    assert said in str(error.value)


def test_the_outermost_partitions_are_allowed() -> None:
    assert plan_launch(wanted(start="2026-01-01", end="2026-01-03T10"), KNOWN).partitions


def test_all_of_nobody_is_said() -> None:
    with pytest.raises(CommandError, match="no organisation has sent anything yet"):
        plan_launch(wanted("all"), Partitions((), KNOWN.first_ns, KNOWN.last_ns))


def test_the_tags_are_the_ones_that_assets_read() -> None:
    from lakerunner_assets.cooked.asset import ALLOW_LOSS_TAG
    from lakerunner_assets.keys import FORCE_TAG
    from lakerunner_cli.backfill import request

    assert (request.ALLOW_LOSS_TAG, request.FORCE_TAG) == (ALLOW_LOSS_TAG, FORCE_TAG)


# --- Dagster itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PARTITIONS", "LAUNCH", "STATE", "CANCEL", "FAILURES"])
def test_the_webserver_knows_what_is_said_to_it(name: str) -> None:
    from dagster_graphql.schema import create_schema
    from graphql import parse, validate

    schema = create_schema().graphql_schema
    assert validate(schema, parse(getattr(documents, name))) == []
    spoilt = getattr(documents, name).replace("message", "massage")
    assert validate(schema, parse(spoilt)), "a field that does not exist must be seen"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dagster, Any]]:
    """The project's own definitions behind Dagster's own resolvers, without a process of their own."""
    from dagster import DagsterInstance
    from dagster._core.remote_origin import InProcessCodeLocationOrigin
    from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
    from dagster._core.workspace.context import WorkspaceProcessContext
    from dagster._core.workspace.load_target import WorkspaceLoadTarget
    from dagster_graphql.test.utils import execute_dagster_graphql

    class Ours(WorkspaceLoadTarget):
        def create_origins(self):
            target = LoadableTargetOrigin(
                executable_path=sys.executable, module_name="lakerunner_assets.definitions"
            )
            return [InProcessCodeLocationOrigin(target)]

    instance = DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster")))
    instance.add_dynamic_partitions("org", ["acme", "beta", "gamma"])
    with WorkspaceProcessContext(instance, Ours()) as process:

        def ask(document: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
            answer = execute_dagster_graphql(process.create_request_context(), document, dict(variables))
            assert not answer.errors, answer.errors
            return answer.data

        yield Dagster("http://dagster", ask), process


def test_dagster_says_what_partitions_there_are(real: tuple[Dagster, Any]) -> None:
    dagster, _ = real
    known = dagster.partitions_of(("cooked", "logs"))
    assert known.orgs == ("acme", "beta", "gamma")
    assert known.first_ns == parse_hour(Settings().horizon)
    assert (known.last_ns - known.first_ns) % HOUR_NS == 0
    with pytest.raises(CommandError, match="no asset cooked/nothing"):
        dagster.partitions_of(("cooked", "nothing"))


def test_dagster_takes_a_back_fill_of_hours_and_adds_the_days(real: tuple[Dagster, Any]) -> None:
    dagster, process = real
    launch = plan_launch(
        wanted("acme,gamma", "metrics", "2026-01-02T22", "2026-01-03T01", force=True),
        dagster.partitions_of(("rollup", "10s")),
    )
    backfill_id = dagster.launch(launch)
    state = dagster.state(backfill_id)
    assert (state.status, state.error, state.runs, state.has_ended) == ("REQUESTED", "", (), False)
    totals = {asset.asset: asset.total for asset in state.assets}
    assert totals == {**dict.fromkeys(HOURLY_METRICS, 6), "rollup/1d": 4}  # 2 organisations, 2 days
    assert process.instance.get_backfill(backfill_id).tags == {"lakerunner/force": "true"}
    dagster.cancel(backfill_id)
    assert dagster.state(backfill_id).status == "CANCELING"


def test_dagster_takes_hours_up_to_the_newest_one(real: tuple[Dagster, Any]) -> None:
    """It refuses a day of which hours are no partitions yet; so what is planned must never name one."""
    dagster, _ = real
    known = dagster.partitions_of(("rollup", "10s"))
    launches = plan_launches(
        wanted(
            "acme",
            "metrics",
            format_hour(known.last_ns - 30 * HOUR_NS),
            format_hour(known.last_ns + HOUR_NS),
            tiers="rollups",
        ),
        Partitions(known.orgs, known.first_ns, known.last_ns),
    )
    totals = []
    for launch in launches:
        backfill_id = dagster.launch(launch)
        totals.append({asset.asset: asset.total for asset in dagster.state(backfill_id).assets})
        dagster.cancel(backfill_id)
    the_day_is_over = (known.last_ns + HOUR_NS) % DAY_NS == 0
    assert len(totals) == (1 if the_day_is_over else 2)
    assert totals[0]["rollup/1d"] in {1, 2}
    assert all("rollup/1d" not in later for later in totals[1:])
    assert sum(part["rollup/1h"] for part in totals) == 31


def test_hours_of_an_organisation_become_one_run_of_all_hourly_tiers(real: tuple[Dagster, Any]) -> None:
    from dagster._daemon.backfill import execute_backfill_iteration

    dagster, process = real
    launch = plan_launch(
        wanted("beta", "metrics", "2026-01-02T05", "2026-01-02T08"), dagster.partitions_of(("raw", "metrics"))
    )
    backfill_id = dagster.launch(launch)
    list(execute_backfill_iteration(process, logging.getLogger("backfill")))
    (run,) = [r for r in process.instance.get_runs() if r.tags.get("dagster/backfill") == backfill_id]
    assert sorted(key.to_user_string() for key in run.asset_selection) == sorted(HOURLY_METRICS)
    assert run.tags["dagster/asset_partition_range_start"] == "2026-01-02-05:00|beta"
    assert run.tags["dagster/asset_partition_range_end"] == "2026-01-02-07:00|beta"
    assert "lakerunner/mode" not in run.tags, "with a mode the run would not rebuild its partitions"
    state = dagster.state(backfill_id)
    assert [r.run_id for r in state.runs] == [run.run_id]
    assert {a.asset: a.running for a in state.assets} == {**dict.fromkeys(HOURLY_METRICS, 3), "rollup/1d": 0}


def test_what_dagster_refuses_is_one_line(real: tuple[Dagster, Any]) -> None:
    dagster, _ = real
    launch = plan_launch(wanted(), Partitions(("acme",), KNOWN.first_ns, KNOWN.last_ns))
    gone = type(launch)(launch.assets, ("2026-01-02-05:00|nobody",), {}, launch.title)
    with pytest.raises(CommandError) as refused:
        dagster.launch(gone)
    assert "did not take the back-fill" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(CommandError, match="no back-fill 'nonesuch'"):
        dagster.state("nonesuch")
    with pytest.raises(CommandError, match="no back-fill 'nonesuch'"):
        dagster.cancel("nonesuch")


# --- watching ---------------------------------------------------------------------------------------


def state(
    status: str, *assets: AssetProgress, runs: tuple[RunState, ...] = (), error: str = ""
) -> BackfillState:
    return BackfillState(status, error, assets, runs)


class Scripted(Dagster):
    """Says these states, one after the other; an exception among them is raised."""

    def __init__(self, *states: BackfillState | BaseException) -> None:
        super().__init__("http://user:secret@dagster:3000/", lambda document, variables: {})
        self.states = list(states)

    def failures(self, run_id: str) -> list[str]:
        return [f"cooked__logs: why {run_id} failed"]

    def state(self, backfill_id: str) -> BackfillState:
        found = self.states.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_watched_until_it_ends_and_each_run_is_told_once() -> None:
    run = RunState("r1", "STARTED")
    dagster = Scripted(
        state("REQUESTED", AssetProgress("cooked/logs", 4)),
        state("REQUESTED", AssetProgress("cooked/logs", 4, running=4), runs=(run,)),
        DagsterAwayError("away"),
        state(
            "COMPLETED_SUCCESS", AssetProgress("cooked/logs", 4, done=4), runs=(RunState("r1", "SUCCESS"),)
        ),
    )
    out, pauses = io.StringIO(), []
    found = follow(dagster, "b", Bars(out), pauses.append)
    assert found.has_succeeded
    assert len(pauses) == 3
    text = out.getvalue()
    assert text.count("run r1  http://dagster:3000/runs/r1") == 1
    assert text.rstrip().endswith("cooked/logs        4/4")
    assert "secret" not in text


def test_a_webserver_that_stays_away_ends_the_watching_only() -> None:
    dagster = Scripted(*[DagsterAwayError("away")] * PATIENCE)
    with pytest.raises(DagsterAwayError, match="the back-fill b goes on"):
        follow(dagster, "b", Bars(io.StringIO()), lambda seconds: None)


@pytest.mark.parametrize(
    ("ended", "good"),
    [
        (state("COMPLETED_SUCCESS", AssetProgress("a", 2, done=2)), True),
        (state("COMPLETED_SUCCESS", AssetProgress("a", 2, done=1)), False),
        (state("COMPLETED_FAILED", AssetProgress("a", 2, done=1, failed=1)), False),
        (state("CANCELED", AssetProgress("a", 2, done=2)), False),
        (state("FAILED", error="no such thing\nstack"), False),
    ],
)
def test_only_a_back_fill_that_built_everything_succeeded(ended: BackfillState, good: bool) -> None:
    assert ended.has_ended
    assert ended.has_succeeded is good


def test_the_summary_names_what_is_missing_and_where_to_look() -> None:
    ended = state(
        "COMPLETED_FAILED",
        AssetProgress("cooked/logs", 4, done=4),
        AssetProgress("compacted/logs", 4, done=1, failed=3),
        runs=(RunState("r1", "SUCCESS"), RunState("r2", "FAILURE")),
        error="",
    )
    assert summary(Scripted(), "b", ended) == [
        "back-fill b did not succeed (completed_failed): 5 of 8 partitions, 2 runs",
        "compacted/logs: 3 of 4 missing",
        "run r2 failure: http://dagster:3000/runs/r2",
        "cooked__logs: why r2 failed",
    ]


def test_what_failed_steps_said_is_found_on_any_page() -> None:
    def step(key: str, **more: Any) -> dict[str, Any]:
        nothing = {"error": None, "failureMetadata": None}
        return {"__typename": "ExecutionStepFailureEvent", "stepKey": key, **nothing, **more}

    wrapped = {
        "message": "DagsterExecutionStepExecutionError",
        "cause": {"message": "LossError: 3 objects\n"},
    }
    pages = {
        None: {"cursor": "c1", "hasMore": True, "events": [{"__typename": "LogMessageEvent"}]},
        "c1": {
            "cursor": "c2",
            "hasMore": False,
            "events": [
                step("a", error=wrapped),
                step("b", failureMetadata={"description": "choose partitions"}),
                step("c", error={"message": "boom", "cause": None}),
                step("d"),
            ],
        },
    }

    def ask(document: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"logsForRun": {"__typename": "EventConnection", **pages[variables["cursor"]]}}

    assert Dagster("http://dagster", ask).failures("r") == [
        "a: LossError: 3 objects",
        "b: choose partitions",
        "c: boom",
        "d: no reason given",
    ]
    assert (
        Dagster("http://dagster", lambda *_: {"logsForRun": {"__typename": "RunNotFoundError"}}).failures("r")
        == []
    )


def test_bars_are_drawn_in_place_on_a_terminal() -> None:
    screen = Screen()
    bars = Bars(screen)
    bars.show([AssetProgress("a", 2), AssetProgress("b", 2)])
    bars.say("run r")
    bars.show([AssetProgress("a", 2, done=2), AssetProgress("b", 2)])
    bars.show([AssetProgress("a", 2, done=2), AssetProgress("b", 2, done=2)])
    assert screen.getvalue().count("\033[2F\033[J") == 2  # before the line, and before the third drawing


def test_elsewhere_only_what_changed_is_written_and_not_all_the_time() -> None:
    now, out = [0.0], io.StringIO()
    bars = Bars(out, lambda: now[0])
    for seconds, done in ((0.0, 0), (2.0, 1), (11.0, 2), (22.0, 2)):
        now[0] = seconds
        bars.show([AssetProgress("a", 3, done=done), AssetProgress("b", 3)])
    bars.show([AssetProgress("a", 3, done=3), AssetProgress("b", 3)], last=True)
    assert [line.partition("] ")[2].split() for line in out.getvalue().splitlines()] == [
        ["a", "0/3"],
        ["b", "0/3"],
        ["a", "2/3"],
        ["a", "3/3"],
    ]


# --- the wire, the command --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(200, text="<html>"), "without JSON"),
        (httpx.Response(503, text="later"), "HTTP 503"),
        (httpx.Response(400, json={"errors": [{"message": "no such field"}]}), "no such field"),
    ],
)
def test_odd_answers_are_one_line(answer: httpx.Response, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.URL] = []

    def post(url: httpx.URL, **_: Any) -> httpx.Response:
        asked.append(url)
        return answer

    monkeypatch.setattr(httpx, "post", post)
    with pytest.raises(CommandError) as error:
        over_http(httpx.URL("http://u:secret@host/dagster"))("{}", {})
    assert said in str(error.value)
    assert "secret" not in str(error.value)
    assert asked[0].path == "/dagster/graphql"
    assert asked[0].password == "secret"


def test_a_webserver_that_is_not_there_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["backfill", "acme", "logs", "2026-01-02", "2026-01-03", "--data-dir", str(tmp_path)]
    assert main([*arguments, "--dagster-url", "http://127.0.0.1:1"]) == 2
    assert "Dagster's webserver at http://127.0.0.1:1 does not answer" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "no stack is running" in capsys.readouterr().err
    assert main([*arguments[:4], "--data-dir", str(tmp_path)]) == 2
    assert "TO missing" in capsys.readouterr().err
    assert main(["backfill", "acme", "--follow", "b", "--data-dir", str(tmp_path)]) == 2
    assert "nothing else" in capsys.readouterr().err


def test_the_webserver_is_the_one_of_the_running_stack(tmp_path: Path) -> None:
    where = StackPaths(tmp_path)
    where.create()
    lock = acquire(where)
    assert lock is not None
    with lock:
        ready = ComponentState("webserver", Phase.READY, address="http://127.0.0.1:4311")
        file = StateFile(where.state, StackState(ProcessId(1, 1.0), 0.0, (), {"webserver": ready}))
        settings = Settings(data_dir=tmp_path, webserver_token="key")
        assert backfill.webserver_url(settings) == "http://lakerunner:key@127.0.0.1:4311"
        file.update("webserver", phase=Phase.STARTING)
        with pytest.raises(CommandError, match="webserver is starting"):
            backfill.webserver_url(Settings(data_dir=tmp_path))
        StateFile(where.state, StackState(ProcessId(1, 1.0), 0.0))
        with pytest.raises(CommandError, match="without Dagster's webserver"):
            backfill.webserver_url(Settings(data_dir=tmp_path))


class Pretend(Scripted):
    """Takes every launch."""

    launched: ClassVar[list[Any]] = []

    def __init__(self, url: str) -> None:
        super().__init__(*self.script)

    script: tuple[BackfillState | BaseException, ...] = ()

    def partitions_of(self, asset: tuple[str, ...]) -> Partitions:
        return KNOWN

    def launch(self, wanted: Any) -> str:
        self.launched.append(wanted)
        return "bbbb"


@pytest.mark.parametrize(
    ("script", "arguments", "code", "said"),
    [
        ((state("COMPLETED_SUCCESS", AssetProgress("a", 1, done=1)),), [], 0, "back-fill bbbb succeeded"),
        ((state("COMPLETED_FAILED", AssetProgress("a", 1, failed=1)),), [], 1, "a: 1 of 1 missing"),
        ((KeyboardInterrupt(),), [], 130, "lakerunner backfill --cancel bbbb"),
        ((), ["--detach"], 0, "lakerunner backfill --follow bbbb --dagster-url http://dagster:3000"),
    ],
)
def test_the_command_ends_as_the_back_fill_does(
    script: tuple[BackfillState | BaseException, ...],
    arguments: list[str],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(Pretend, "script", script)
    monkeypatch.setattr("lakerunner_cli.backfill.dagster_api.Dagster", Pretend)
    given = ["backfill", "all", "metrics", "2026-01-02", "2026-01-03", "--tiers=rollups", "--force", "--yes"]
    where = ["--data-dir", str(tmp_path), "--dagster-url", "http://dagster"]
    assert main([*given, *where, *arguments]) == code
    out = capsys.readouterr().out
    assert said in out
    assert "http://dagster:3000/runs/b/bbbb" in out
    launch = Pretend.launched[-1]
    assert (launch.assets[0], len(launch.partitions), launch.tags) == (
        ("rollup", "10s"), 48, {"lakerunner/force": "true"},
    )  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stdin", "arguments", "code", "launched", "said"),
    [
        (Terminal("y\n"), [], 0, 1, "24 hours of each asset. Go on? [y/N]"),
        (Terminal("\n"), [], 1, 0, "nothing was started"),
        (io.StringIO(""), [], 2, 0, "add --yes"),
        (io.StringIO(""), ["--yes"], 0, 1, "back-fill bbbb"),
    ],
)
def test_a_whole_day_is_rebuilt_only_after_a_yes(
    stdin: io.StringIO,
    arguments: list[str],
    code: int,
    launched: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(Pretend, "launched", [])
    monkeypatch.setattr("lakerunner_cli.backfill.dagster_api.Dagster", Pretend)
    monkeypatch.setattr("sys.stdin", stdin)
    given = ["backfill", "acme", "metrics", "2026-01-02", "2026-01-03", "--tiers=rollups", "--detach"]
    assert main([*given, "--data-dir", str(tmp_path), "--dagster-url", "http://dagster", *arguments]) == code
    assert len(Pretend.launched) == launched
    assert said in "".join(capsys.readouterr())


def test_an_hour_is_rebuilt_without_a_question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Pretend, "launched", [])
    monkeypatch.setattr("lakerunner_cli.backfill.dagster_api.Dagster", Pretend)
    given = ["backfill", "acme", "metrics", "2026-01-02T05", "2026-01-02T06", "--tiers=raw", "--detach"]
    assert main([*given, "--data-dir", str(tmp_path), "--dagster-url", "http://dagster"]) == 0
    assert len(Pretend.launched) == 1


@pytest.mark.parametrize("signal", list(Signal))
def test_metrics_are_derived_from_any_signal(signal: Signal) -> None:
    launch = plan_launch(wanted(signal=signal.value, tiers="materialized", force=True), KNOWN)
    assert ["/".join(path) for path in launch.assets] == [f"materialized/{signal.value}"]
    assert launch.tags == {"lakerunner/force": "true"}

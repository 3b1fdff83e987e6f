"""The command line: help everywhere, one line for what a person can put right."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakerunner_cli.commands import COMMANDS
from lakerunner_cli.main import _parser, main


@pytest.mark.parametrize("arguments", [[], ["up"], ["down"], ["status"], ["logs"], ["doctor"], ["query-api"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    assert "usage: lakerunner" in capsys.readouterr().out


def test_a_misspelt_setting_is_one_line_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKERUNNER_QUERY_PROT", "1")
    assert main(["status", "--data-dir", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "LAKERUNNER_QUERY_PROT" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_the_data_directory_may_stand_before_the_command(command: str, tmp_path: Path) -> None:
    needed = {
        "admin": ["org", "list"],
        "ingest": ["x", "--org", "acme", "--signal", "logs"],
        "notifications": ["sqs"],
        "query": ["SELECT 1"],
        "rules": ["list"],
        "sampler": ["explain", "0af7651916cd43dd8448eb211c80319c"],
        "tables": ["list"],
        "trace": ["4bf92f3577b34da6"],
    }
    parse = _parser().parse_args
    before = parse(["--data-dir", str(tmp_path), command, *needed.get(command, [])])
    after = parse([command, *needed.get(command, []), "--data-dir", str(tmp_path)])
    assert before.data_dir == after.data_dir == tmp_path
    assert parse([command, *needed.get(command, [])]).data_dir is None


def test_status_without_a_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--data-dir", str(tmp_path)]) == 1
    assert "no stack is running" in capsys.readouterr().out


def test_down_without_a_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--data-dir", str(tmp_path)]) == 0
    assert "no stack is running" in capsys.readouterr().out


def test_logs_of_an_unknown_component(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "kafak", "--data-dir", str(tmp_path)]) == 2
    assert "no log of 'kafak'" in capsys.readouterr().err

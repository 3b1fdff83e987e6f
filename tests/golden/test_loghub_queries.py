"""Twenty log queries over real log lines, answered by hand: grep gave the counts, plain Python the lines.

The lines of eight systems lie in a lake, one second apart, and are asked for over Loki's API. What is
expected is told by a function of the line that knows nothing of LogQL; `count` is what grep or awk counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from litestar.testing import TestClient

from lakerunner_query.app import create_app
from resources.lake.timecut import SECOND_NS
from tests.support.corpora import CORPORA
from tests.support.query.lake import BASE, Lake, start_workers

FOLDER = CORPORA / "loghub"
SYSTEMS = ("Apache", "HDFS", "HPC", "Linux", "OpenSSH", "OpenStack", "Spark", "Zookeeper")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no log lines of others in {FOLDER}"),
]
KNOWN = frozenset({"job", "system", "service_name", "detected_level"})
"""Labels of every line, whatever the query."""
Shown = tuple[str, dict[str, str]]
"""A line as it is answered, and the labels that the query made."""


def lines_of(system: str) -> list[str]:
    text = (FOLDER / f"{system}_2k.log").read_bytes().decode(errors="replace")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def found(pattern: str, line: str) -> dict[str, str] | None:
    """Named groups by Python's own regular expressions."""
    match = re.search(pattern, line)
    return {name: value or "" for name, value in match.groupdict().items()} if match else None


@dataclass(frozen=True)
class Case:
    name: str
    system: str
    pipeline: str
    """Behind the selector of the system."""
    count: int
    expected: Callable[[str], Shown | None]
    """What becomes of a line, None where it is not in the answer."""
    dropped: frozenset[str] = field(default_factory=frozenset)
    """Stream labels that the query takes away."""


def holds(*texts: str, without: tuple[str, ...] = ()) -> Callable[[str], Shown | None]:
    def shown(line: str) -> Shown | None:
        is_in = any(text in line for text in texts) and not any(text in line for text in without)
        return (line, {}) if is_in else None

    return shown


def _ssh_user(line: str) -> Shown | None:
    groups = found(r"Failed password for (?:invalid user )?(?P<user>\w+) from (?P<ip>[0-9.]+)", line)
    return (line, groups) if groups and groups["user"] == "root" else None


def _ssh_network(line: str) -> Shown | None:
    addresses = re.findall(r"\d+\.\d+\.\d+\.\d+", line)
    return (line, {}) if any(one.startswith("183.62.140.") for one in addresses) else None


def _apache_shape(line: str) -> Shown | None:
    match = re.fullmatch(r"\[(.*?)\] \[(.*?)\] (.*)", line)
    if match is None or match[2] != "error":
        return None
    return match[3], {"time": match[1], "severity": match[2], "what": match[3]}


def _hdfs_size(line: str) -> Shown | None:
    words = line.split(" of size ")
    if len(words) != 2 or " from " not in words[1]:
        return None
    size, source = words[1].split(" from ", 1)
    return (line, {"size": size, "source": source}) if int(size) < 60_000_000 else None


def _openstack_slow(line: str) -> Shown | None:
    groups = found(r"status: (?P<status>\d+) len: (?P<len>\d+) time: (?P<time>[0-9.]+)", line)
    return (line, groups) if groups and float(groups["time"]) > 0.5 else None


def _openstack_failed(line: str) -> Shown | None:
    groups = found(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1.1" status: (?P<status>\d+)', line)
    if groups is None or int(groups["status"]) < 400:
        return None
    return f"{groups['method']} {groups['status']}", groups


def _zookeeper_level(line: str) -> Shown | None:
    groups = found(r"^\S+ \S+ - (?P<severity>[A-Z]+) +\[", line)
    return (line, {"kept": groups["severity"].lower()}) if groups and groups["severity"] == "ERROR" else None


def _linux_root(line: str) -> Shown | None:
    """logfmt takes every `key=value`; of two with the same key the first."""
    if "authentication failure" not in line:
        return None
    user = re.search(r"(?<= user=)\S+", line)
    host = re.search(r"rhost=(\S*)", line)
    if user is None or user[0] != "root" or host is None:
        return None
    return (line, {"user": "root"} | ({"host": host[1]} if host[1] else {}))


def _spark_words(line: str) -> Shown | None:
    parts = line.split(" ")
    return (line, {}) if parts[3] == "storage.BlockManager:" else None


def _hpc_node(line: str) -> Shown | None:
    fields = line.split(" ", 6)
    if fields[1] == "node-246" or "unavailable state" not in line:
        return None
    return fields[6], {"node": fields[1]}


def _matches(pattern: str, without: str = "(?!)") -> Callable[[str], Shown | None]:
    return lambda line: (line, {}) if re.search(pattern, line) and not re.search(without, line) else None


SSH = r"| regexp `Failed password for (?:invalid user )?(?P<user>\w+) from (?P<ip>[0-9.]+)`"
TIMES = r"| regexp `status: (?P<status>\d+) len: (?P<len>\d+) time: (?P<time>[0-9.]+)`"
REQUESTS = r'| regexp `"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1.1" status: (?P<status>\d+)`'
SEVERITY = r'| regexp `^\S+ \S+ - (?P<severity>[A-Z]+) +\[` | severity="ERROR"'
APACHE = '| pattern "[<time>] [<severity>] <what>" | severity="error"'
SIZES = '| pattern "<_> of size <size> from <source>" | size < 60000000 | __error__=""'
NODES = '|= "unavailable state" | pattern "<_> <node> <_> <_> <_> <_> <text>" | node != "node-246"'
COMPONENTS = '| pattern "<_> <_> <_> <component> <_>" | component="storage.BlockManager:"'
CASES = (
    Case("contains", "Apache", '|= "[error]"', 595, holds("[error]")),
    Case("without", "Apache", '|= "[error]" != "mod_jk"', 44, holds("[error]", without=("mod_jk",))),
    Case("raw text", "OpenSSH", "|= `password for root`", 370, holds("password for root")),
    Case("either", "OpenSSH", '|= "Invalid user" or "BREAK-IN"', 198, holds("Invalid user", "BREAK-IN")),
    Case("neither", "HDFS", '!= " INFO " or " ERROR "', 80, holds(" WARN ")),
    Case("regex", "Zookeeper", '|~ " - (WARN|ERROR) "', 1331, _matches(" - (WARN|ERROR) ")),
    Case("regex without case", "Spark", '|~ "(?i)BROADCAST"', 148, _matches("(?i)broadcast")),
    Case("negative regex", "HPC", '!~ "state_change|boot" |~ "^[0-9]+ node-24[0-9] "', 43,
         _matches("^[0-9]+ node-24[0-9] ", "state_change|boot")),
    Case("pattern filter", "OpenStack", "|> `<_>\"DELETE <_>status: 204<_>`", 22,
         _matches('.+"DELETE .+status: 204.+')),
    Case("address", "OpenSSH", '|= ip("183.62.140.0/24")', 867, _ssh_network),
    Case("regexp", "OpenSSH", SSH + ' | user="root"', 370, _ssh_user),
    Case("pattern", "Apache", APACHE + ' | line_format "{{.what}}"', 595, _apache_shape),
    Case("numbers", "HDFS", SIZES, 15, _hdfs_size),
    Case("floats", "OpenStack", TIMES + " | time > 0.5", 12, _openstack_slow),
    Case("line_format", "OpenStack", REQUESTS + ' | status >= 400 | line_format "{{.method}} {{.status}}"',
         41, _openstack_failed),
    Case("label_format and keep", "Zookeeper",
         SEVERITY + ' | label_format kept="{{.severity | ToLower}}" | keep kept', 13, _zookeeper_level,
         KNOWN),
    Case("logfmt", "Linux", '|= "authentication failure" | logfmt user, host="rhost" | user="root"', 351,
         _linux_root),
    Case("drop", "Spark", COMPONENTS + " | drop component", 257, _spark_words),
    Case("rest of the line", "HPC", NODES + ' | line_format "{{.text}}" | drop text', 10, _hpc_node),
    Case("counts of words", "Apache", '|~ "^(\\\\S+ ){7}ok "', 569, holds("workerEnv.init() ok")),
)  # fmt: skip


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[Any]]]:
    lake = Lake(tmp_path_factory.mktemp("lake"))
    lake.add_org("acme", "key")
    for system in SYSTEMS:
        entries = [(BASE + (n + 1) * SECOND_NS, line, {}) for n, line in enumerate(lines_of(system))]
        lake.push("acme", [({"job": "loghub", "system": system}, entries)])
    workers = contextmanager(start_workers)(tmp_path_factory.mktemp("data"), lake.folder, 1)
    with workers as stack, TestClient(create_app(stack.settings, lake.index)) as http:

        def asked(query: str, **more: object) -> list[Any]:
            params = {"query": query, "start": BASE, "end": BASE + 3600 * SECOND_NS, "limit": 5000, **more}
            reply = http.get(
                "/loki/api/v1/query_range", params=params, headers={"x-cardinalhq-api-key": "key"}
            )
            assert reply.status_code == 200, reply.text
            return list(reply.json()["data"]["result"])

        yield asked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lines_times_and_labels_are_those_found_by_hand(case: Case, ask: Callable[..., list[Any]]) -> None:
    numbered = [
        (BASE + (n + 1) * SECOND_NS, case.expected(line)) for n, line in enumerate(lines_of(case.system))
    ]
    expected = [(at, *shown) for at, shown in numbered if shown is not None]
    assert len(expected) == case.count, "grep says otherwise"
    answered = []
    for stream in ask(f'{{system="{case.system}"}} {case.pipeline}', direction="forward"):
        times = [int(at) for at, _ in stream["values"]]
        assert times == sorted(times)
        made = {name: value for name, value in stream["stream"].items() if name not in KNOWN}
        assert case.dropped.isdisjoint(stream["stream"])
        assert case.dropped or stream["stream"]["system"] == case.system
        answered += [(int(at), text, made) for at, text in stream["values"]]
    assert sorted(answered, key=lambda row: row[0]) == expected


def test_backward_gives_the_newest_first_and_no_more_than_asked(ask: Callable[..., list[Any]]) -> None:
    rows = [row for stream in ask('{system="Apache"} |= "[error]"', limit=7) for row in stream["values"]]
    wanted = [n for n, line in enumerate(lines_of("Apache")) if "[error]" in line][-7:]
    assert [int(at) for at, _ in rows] == [BASE + (n + 1) * SECOND_NS for n in reversed(wanted)]

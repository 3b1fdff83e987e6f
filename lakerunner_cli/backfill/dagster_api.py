"""A client of Dagster's webserver for back-fills: typed answers, and errors for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from lakerunner_assets.partitions import parse_partition_key
from lakerunner_cli.backfill import documents
from lakerunner_cli.backfill.request import AssetPath, Launch, Partitions
from lakerunner_cli.command import CommandError

Transport = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Sender of a document and its variables; returns the `data` of the answer."""
TIMEOUT_S = 300.0
"""Timeout of a request: a launch takes 11 s to count 14,400 partitions of each of eight assets."""
ENDED = frozenset({"COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED"})


class DagsterAwayError(CommandError):
    """The webserver did not answer; a back-fill goes on without it."""


@dataclass(frozen=True, slots=True)
class AssetProgress:
    asset: str
    total: int
    running: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RunState:
    run_id: str
    status: str


@dataclass(frozen=True, slots=True)
class BackfillState:
    status: str
    error: str
    assets: tuple[AssetProgress, ...]
    runs: tuple[RunState, ...]

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED

    @property
    def has_succeeded(self) -> bool:
        return (
            self.status in {"COMPLETED_SUCCESS", "COMPLETED"}
            and bool(self.assets)
            and all(asset.done == asset.total for asset in self.assets)
        )


class Dagster:
    def __init__(self, url: str, ask: Transport | None = None) -> None:
        parsed = httpx.URL(url.rstrip("/"))
        self._ask = ask or over_http(parsed)
        self.url = str(parsed.copy_with(userinfo=b""))
        """Address without the password that it may contain: it is printed."""

    def partitions_of(self, asset: AssetPath) -> Partitions:
        found = self._ask(documents.PARTITIONS, {"asset": {"path": list(asset)}})["assetNodeOrError"]
        if found["__typename"] != "AssetNode":
            raise CommandError(
                f"Dagster at {self.url} has no asset {'/'.join(asset)}: {found.get('message', '')}. "
                "Has its code location loaded?"
            )
        keys = {each["name"]: each["partitionKeys"] for each in found["partitionKeysByDimension"]}
        first, last = (parse_partition_key(f"{hour}|")[1] for hour in (keys["hour"][0], keys["hour"][-1]))
        return Partitions(tuple(sorted(keys["org"])), first, last)

    def launch(self, wanted: Launch) -> str:
        params = {
            "assetSelection": [{"path": list(path)} for path in wanted.assets],
            "partitionNames": list(wanted.partitions),
            "tags": [{"key": key, "value": value} for key, value in wanted.tags.items()],
            "title": wanted.title,
        }
        found = self._ask(documents.LAUNCH, {"params": params})["launchPartitionBackfill"]
        if found["__typename"] != "LaunchBackfillSuccess":
            raise CommandError(f"Dagster did not take the back-fill: {_reason(found)}")
        return str(found["backfillId"])

    def state(self, backfill_id: str) -> BackfillState:
        found = self._ask(documents.STATE, {"id": backfill_id})["partitionBackfillOrError"]
        if found["__typename"] != "PartitionBackfill":
            raise CommandError(f"no back-fill {backfill_id!r}: {_reason(found)}")
        data = found["assetBackfillData"] or {"assetBackfillStatuses": []}
        return BackfillState(
            found["status"],
            (found["error"] or {}).get("message", ""),
            tuple(
                _progress(each)
                for each in data["assetBackfillStatuses"]
                if each["__typename"] == "AssetPartitionsStatusCounts"
            ),
            tuple(RunState(run["id"], run["status"]) for run in found["runs"]),
        )

    def failures(self, run_id: str) -> list[str]:
        """Return the errors of failed steps; events come page by page, failures among the last."""
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = self._ask(documents.FAILURES, {"run": run_id, "cursor": cursor})["logsForRun"]
            if page["__typename"] != "EventConnection":
                return found
            found += [
                f"{event['stepKey']}: {_why(event)}"
                for event in page["events"]
                if event["__typename"] == "ExecutionStepFailureEvent"
            ]
            if not page["hasMore"]:
                return found
            cursor = page["cursor"]

    def cancel(self, backfill_id: str) -> None:
        self.state(backfill_id)  # an unknown one is a plain sentence there
        found = self._ask(documents.CANCEL, {"id": backfill_id})["cancelPartitionBackfill"]
        if found["__typename"] != "CancelBackfillSuccess":
            raise CommandError(f"Dagster did not cancel {backfill_id!r}: {_reason(found)}")

    def backfill_url(self, backfill_id: str) -> str:
        return f"{self.url}/runs/b/{backfill_id}"

    def run_url(self, run_id: str) -> str:
        return f"{self.url}/runs/{run_id}"


def over_http(url: httpx.URL) -> Transport:
    shown = url.copy_with(userinfo=b"")

    def ask(document: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"query": document, "variables": dict(variables)}
        try:
            answer = httpx.post(url.join(f"{url.path.rstrip('/')}/graphql"), json=body, timeout=TIMEOUT_S)
        except httpx.TransportError as error:
            raise DagsterAwayError(
                f"Dagster's webserver at {shown} does not answer: {type(error).__name__}: {error}"
            ) from error
        if answer.status_code in {502, 503, 504}:
            raise DagsterAwayError(f"Dagster's webserver at {shown} is away: HTTP {answer.status_code}")
        try:
            content = answer.json()
        except ValueError as error:
            raise CommandError(
                f"{shown} answered HTTP {answer.status_code} without JSON: is that Dagster's webserver?"
            ) from error
        if content.get("errors") or not content.get("data"):
            said = [each.get("message", "") for each in content.get("errors") or ()] or [str(content)]
            raise CommandError(f"Dagster at {shown}, HTTP {answer.status_code}: {'; '.join(said)[:500]}")
        data: Mapping[str, Any] = content["data"]
        return data

    return ask


def _progress(each: Mapping[str, Any]) -> AssetProgress:
    return AssetProgress(
        "/".join(each["assetKey"]["path"]),
        each["numPartitionsTargeted"],
        each["numPartitionsInProgress"],
        each["numPartitionsMaterialized"],
        each["numPartitionsFailed"],
    )


def _why(event: Mapping[str, Any]) -> str:
    """Return the reason of a failure: the step's description, else the wrapped exception."""
    error = event["error"] or {}
    cause = error.get("cause") or error
    described = (event["failureMetadata"] or {}).get("description")
    return str(described or cause.get("message") or "no reason given").strip()


def _reason(found: Mapping[str, Any]) -> str:
    """Return the first line of a message, which may hold a stack trace."""
    lines = str(found.get("message") or "").strip().splitlines()
    return lines[0][:500] if lines else str(found["__typename"])

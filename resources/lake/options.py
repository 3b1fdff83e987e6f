"""Organisations choose how their telemetry is decoded; `org_setting` stores it.

Values only: the index returns them, tasks carry them, decoders obey them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

log = logging.getLogger(__name__)

FIELD_ROLES = (
    "timestamp",
    "observed_timestamp",
    "level",
    "message",
    "service",
    "trace_id",
    "span_id",
    "metric_name",
    "value",
    "labels",
    "metric_type",
    "unit",
    "span_name",
    "parent_span_id",
    "start",
    "end",
    "duration",
    "kind",
    "status",
)
"""Meanings of a field of foreign JSON, CSV or Parquet; names are looked for role by role."""

DEFAULT_INDEX_ATTRIBUTES = (
    "service.name",
    "service.namespace",
    "service.instance.id",
    "deployment.environment",
    "deployment.environment.name",
    "cloud.region",
    "cloud.availability_zone",
    "k8s.cluster.name",
    "k8s.namespace.name",
    "k8s.pod.name",
    "k8s.container.name",
    "container.name",
    "k8s.replicaset.name",
    "k8s.deployment.name",
    "k8s.statefulset.name",
    "k8s.daemonset.name",
    "k8s.cronjob.name",
    "k8s.job.name",
)
"""Loki's `default_resource_attributes_as_index_labels`."""


class MetricNaming(StrEnum):
    """The translation of OTLP names to label names."""

    PROMETHEUS = "prometheus"  # units and `_total` appended, everything but [a-zA-Z0-9_:] replaced
    VERBATIM = "verbatim"  # as sent, UTF-8


@dataclass(frozen=True, slots=True)
class DecodeOptions:
    """Choices that decoders obey."""

    index_attributes: tuple[str, ...] = DEFAULT_INDEX_ATTRIBUTES
    metric_naming: MetricNaming = MetricNaming.PROMETHEUS
    type_and_unit_labels: bool = False
    """Presence of `__type__` and `__unit__` among the labels of OTLP metrics."""
    fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Field mapping of foreign JSON, CSV and Parquet: (role, its names, first found wins), before the usual
    names. Roles: `FIELD_ROLES`."""


@dataclass(frozen=True, slots=True)
class OrgOptions:
    """All settings of one organisation."""

    decode: DecodeOptions = DecodeOptions()
    push_bytes_per_second: int | None = None
    """Limit of push receivers, which then answer 429."""
    ingest_bytes_per_minute: int | None = None
    """Limit of cooking; the rest waits its turn, so that nobody starves."""
    span_metrics: bool = True
    """True if metrics and the service graph are derived from spans."""
    derived_max_series: int | None = None
    """Series that a rule may have in an hour; None: as many as the setting says."""


class OptionError(ValueError):
    """A setting of an organisation does not exist or has an impossible value."""


def options_of(settings: Mapping[str, object]) -> OrgOptions:
    """Parse rows of `org_setting`; unknown names and wrong values are errors.

    >>> options_of({"metric_naming": "verbatim"}).decode.metric_naming.value
    'verbatim'
    """
    found = {name: _read(name, value) for name, value in settings.items()}
    decode = {f.name: found.pop(f.name) for f in fields(DecodeOptions) if f.name in found}
    return OrgOptions(DecodeOptions(**decode), **found)


def readable_options(rows: Mapping[str, Mapping[str, object]]) -> dict[str, OrgOptions]:
    """Parse the settings of all organisations; log and skip those this version cannot read.

    Commands refuse such settings; they come from another version or from SQL.
    """
    found: dict[str, OrgOptions] = {}
    for org, settings in rows.items():
        readable: dict[str, object] = {}
        for name, value in settings.items():
            try:
                options_of({name: value})
            except OptionError as error:
                log.error("organisation %s: %s; the default is used", org, error)  # noqa: TRY400 - says it all
            else:
                readable[name] = value
        found[org] = options_of(readable)
    return found


def _read(name: str, value: object) -> Any:
    if name not in _READERS:
        raise OptionError(f"setting {name!r}: expected one of {', '.join(sorted(_READERS))}")
    wanted, read = _READERS[name]
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise OptionError(f"setting {name}: expected {wanted}, found {value!r}") from error


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise ValueError(value)
    return tuple(value)


def _roles(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict) or not value.keys() <= set(FIELD_ROLES):
        raise ValueError(value)
    return tuple((role, _texts(names)) for role, names in sorted(value.items()))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _amount(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(value)
    return value


_READERS: dict[str, tuple[str, Callable[[object], object]]] = {
    "index_attributes": ("a list of resource attribute names", _texts),
    "metric_naming": ("prometheus or verbatim", lambda value: MetricNaming(str(value))),
    "type_and_unit_labels": ("true or false", _flag),
    "fields": (f"role → list of names, roles {', '.join(FIELD_ROLES)}", _roles),
    "push_bytes_per_second": ("a positive number of bytes", _amount),
    "ingest_bytes_per_minute": ("a positive number of bytes", _amount),
    "span_metrics": ("true or false", _flag),
    "derived_max_series": ("a positive number of series", _amount),
}
SETTING_NAMES = tuple(_READERS)

"""Accounts of organisations have keys, buckets, and descriptions of their metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiKey:
    org: str
    role: str
    name: str


@dataclass(frozen=True, slots=True)
class StorageProfile:
    """Access to a bucket; `credentials_ref` names settings, it is never a secret itself."""

    bucket: str
    url: str
    credentials_ref: str = ""


METADATA_KEPT_S = 7 * 86_400
"""Age of metadata that nobody has sent again: then it is forgotten."""
MAX_FAMILIES = 20_000
"""Descriptions of metric families that are kept of an organisation."""


@dataclass(frozen=True, slots=True, order=True)
class MetricFamily:
    """Description of a metric family, as a sender of remote write gave it."""

    family: str
    type: str
    """Type, as in Prometheus: `counter`, `gauge`, `histogram`, ..."""
    unit: str = ""
    help: str = ""

"""Step 2: whose object each record is, and whether this caller may announce it.

A pure decision over the registry. What an organisation's key is told about a prefix that is not its own is
always the same sentence, whether the prefix is another's or nobody's.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakerunner_ingress.auth import Caller
from resources.index.types import ObjectNotice
from resources.lake.layout import IgnoredKeyError, InvalidKeyError, parse_raw_key, raw_prefixes
from resources.notifications.announced import Event, NotifiedObject
from resources.notifications.references import (
    Registry,
    UnknownBucketError,
    UnknownOrganisationError,
    encode_message,
    resolve,
)

NOT_YOURS = "not under a prefix of this API key's organisation"


@dataclass(frozen=True, slots=True)
class Accepted:
    record: NotifiedObject
    notice: ObjectNotice


@dataclass(frozen=True, slots=True)
class Rejected:
    index: int
    key: str
    reason: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Validated:
    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]
    ignored: int
    unknown: bool = False
    """Whether a newer registry might judge differently."""


class NotYoursError(ValueError):
    """The record belongs to another organisation than the caller's, or to none."""


def validate(event: Event, caller: Caller, registry: Registry) -> Validated:
    accepted: list[Accepted] = []
    rejected = [Rejected(bad.index, "", bad.reason, bad.payload) for bad in event.bad]
    ignored, unknown = event.ignored, False
    for index, record in event.created:
        try:
            accepted.append(Accepted(record, _place(record, caller, registry)))
        except IgnoredKeyError:
            ignored += 1
        except (InvalidKeyError, NotYoursError, UnknownBucketError, UnknownOrganisationError) as error:
            unknown = True
            rejected.append(Rejected(index, record.key, str(error), encode_message(record)))
    rejected.sort(key=lambda each: each.index)
    return Validated(tuple(accepted), tuple(rejected), ignored, unknown)


def _place(record: NotifiedObject, caller: Caller, registry: Registry) -> ObjectNotice:
    if caller.org:
        _only_own(record, caller.org, registry)
    return resolve(record, registry)


def _only_own(record: NotifiedObject, org: str, registry: Registry) -> None:
    try:
        owner = parse_raw_key(record.bucket, record.key, registry.mappings).org
    except InvalidKeyError as error:
        if record.key.startswith(raw_prefixes(org)):
            raise
        raise NotYoursError(NOT_YOURS) from error
    if owner != org:
        raise NotYoursError(NOT_YOURS)

"""Addresses in texts: which of them hold one that is equal to, between, or within others.

    ip("10.0.0.0/8") on "client 10.0.0.7:80"  ->  yes

A pattern is an address, a range `a-b`, or a prefix, of IPv4 or IPv6. An address in a text is the longest run
of characters an address can have, from a place that looks like the beginning of one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.windows.functions import Flags

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_V4 = re.compile(r"\d(?=\.|[\d]\.|[\d]{2}\.)[\d.]*")
_V6 = re.compile(r"(?:::|[0-9a-fA-F]{1,4}:)[0-9a-fA-F:.]*")


class AddressPatternError(ValueError):
    """The text in `ip("…")` is no address, range or prefix."""


@dataclass(frozen=True, slots=True)
class AddressRange:
    first: Address
    last: Address

    def holds(self, address: Address) -> bool:
        return address.version == self.first.version and int(self.first) <= int(address) <= int(self.last)


def address_range(pattern: str) -> AddressRange:
    """What `ip("…")` stands for."""
    try:
        if "-" in pattern:
            first, last = map(ipaddress.ip_address, pattern.split("-"))
            return AddressRange(first, last)
        if "/" in pattern:
            network = ipaddress.ip_network(pattern, strict=False)
            return AddressRange(network[0], network[-1])
        address = ipaddress.ip_address(pattern)
    except ValueError:
        raise AddressPatternError(f"ip: invalid pattern: {pattern}") from None
    return AddressRange(address, address)


def address_test(pattern: str) -> Callable[[pa.StringArray], Flags]:
    """A test of texts: does an address of the pattern stand in it?"""
    wanted = address_range(pattern)
    found = _V4 if wanted.first.version == 4 else _V6

    def tested(texts: pa.StringArray) -> Flags:
        return np.array([_any_in(text, found, wanted) for text in texts.to_pylist()], np.bool_)

    return tested


def _any_in(text: str, candidates: re.Pattern[str], wanted: AddressRange) -> bool:
    for candidate in candidates.finditer(text):
        try:
            if wanted.holds(ipaddress.ip_address(candidate[0])):
                return True
        except ValueError:
            continue
    return False

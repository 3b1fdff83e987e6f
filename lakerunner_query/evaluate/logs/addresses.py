"""Addresses in texts: which of them hold one that is equal to, between, or within others.

    ip("10.0.0.0/8") on "client 10.0.0.7:80"  ->  yes

A pattern is an address, a range `a-b`, or a prefix, of IPv4 or IPv6.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakerunner_query.evaluate.logs.kernels.addresses import holding_rows
from lakerunner_query.evaluate.logs.kernels.text import text_of
from resources.arrays import Flags, UInt64s

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressPatternError(ValueError):
    """The text in `ip("…")` is no address, range or prefix."""


@dataclass(frozen=True, slots=True)
class AddressRange:
    first: Address
    last: Address

    def held_by(self, texts: pa.StringArray) -> Flags:
        """Which texts hold an address of the range."""
        text = text_of(texts)
        is_v6 = self.first.version == 6
        found: Flags = holding_rows(text.data, text.offsets, is_v6, _halves(self.first), _halves(self.last))
        return found


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


def _halves(address: Address) -> UInt64s:
    return np.array([int(address) >> 64, int(address) & (1 << 64) - 1], np.uint64)

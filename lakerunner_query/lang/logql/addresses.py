"""What may stand inside `ip("…")`: an address, a range of addresses, a prefix.

>>> bounds("10.0.0.0/8")[1], bounds("10.0.0.1-10.0.0.9")[0]
(IPv4Address('10.255.255.255'), IPv4Address('10.0.0.1'))
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_PREFIX = re.compile(r"/(?:0|[1-9][0-9]{0,2})$")
"""Python would also take masks and leading zeros."""
Address = IPv4Address | IPv6Address


class InvalidAddressError(ValueError):
    """The text is none of the three."""


def bounds(pattern: str) -> tuple[Address, Address]:
    """The first and the last address."""
    try:
        if "/" in pattern:
            if not _PREFIX.search(pattern):
                raise InvalidAddressError(pattern)
            network = ip_network(pattern, strict=False)
            return network[0], network[-1]
        first, _, last = pattern.partition("-")
        low, high = ip_address(first), ip_address(last or first)
    except ValueError as error:
        raise InvalidAddressError(pattern) from error
    if low.version != high.version or int(low) > int(high) or pattern.endswith("-"):
        raise InvalidAddressError(pattern)
    return low, high

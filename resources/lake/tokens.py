"""A bloom filter over the words of a segment rules out lines it cannot hold.

A token is a maximal run of `[A-Za-z0-9_]` or of non-ASCII characters, case kept. The filter is a
split-block bloom (32-byte blocks, one bit in each of eight words), always a power of two in size, so that
writers fill it at full size and fold it down. Writers build it with a kernel in `lakerunner_assets`; the
two are proved equal by a test.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

TOKENS_VERSION = 1
MAX_BLOCKS = 1 << 15
"""1 MiB: about 800,000 distinct tokens at 1 % false positives; beyond that it answers 'maybe' more often."""
MAX_TOKEN_BYTES = 128
"""Length up to which runs are hashed (longer ones are base64 payloads, not words)."""

SALTS = (
    0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31,
)  # fmt: skip
MULTIPLIER = 0x9E3779B97F4A7C15
MIX_1 = 0xFF51AFD7ED558CCD
MIX_2 = 0xC4CEB9FE1A85EC53

_MAGIC = b"CHQT"
_HEADER = struct.Struct("<4sHHI")
_TOKEN = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
_U64 = (1 << 64) - 1


def tokens(text: str) -> list[str]:
    """Return the distinct tokens of a text, in order of appearance.

    >>> tokens("GET /api/v1: user_7 GET")
    ['GET', 'api', 'v1', 'user_7']
    """
    return list(dict.fromkeys(match.decode() for match in _TOKEN.findall(text.encode())))


def inner_tokens(fragment: str) -> list[str]:
    """Return the tokens that any line with `fragment` has whole; the first and last may be cut.

    >>> inner_tokens("imeout after 30 secon")
    ['after', '30']
    """
    raw = fragment.encode()
    found = [(m.start(), m.end(), m.group()) for m in _TOKEN.finditer(raw)]
    return list(dict.fromkeys(word.decode() for start, end, word in found if start > 0 and end < len(raw)))


def token_hash(token: str) -> int:
    """Hash a token to 64 bits: eight bytes at a time, then murmur's finaliser."""
    raw = token.encode()[:MAX_TOKEN_BYTES]
    value = (len(raw) * MULTIPLIER) & _U64
    for start in range(0, len(raw), 8):
        value = ((value ^ int.from_bytes(raw[start : start + 8], "little")) * MULTIPLIER) & _U64
        value ^= value >> 32
    value = ((value ^ (value >> 33)) * MIX_1) & _U64
    value = ((value ^ (value >> 33)) * MIX_2) & _U64
    return value ^ (value >> 33)


@dataclass(frozen=True, slots=True)
class TokenBloom:
    """A filter that is never wrong about the absence of a token."""

    words: memoryview
    """Bits in 32-bit words, eight to a block."""

    @classmethod
    def from_bytes(cls, raw: bytes) -> TokenBloom:
        if len(raw) < _HEADER.size:
            raise ValueError(f"token bloom of {len(raw)} bytes: shorter than its header of {_HEADER.size}")
        magic, version, _, blocks = _HEADER.unpack_from(raw)
        expected = _HEADER.size + 32 * blocks
        if magic != _MAGIC or version != TOKENS_VERSION or len(raw) != expected or blocks & (blocks - 1):
            raise ValueError(
                f"token bloom: expected {_MAGIC!r} version {TOKENS_VERSION} and {expected} bytes, "
                f"found {magic!r} version {version} and {len(raw)} bytes"
            )
        return cls(memoryview(raw)[_HEADER.size :].cast("I"))

    def to_bytes(self) -> bytes:
        return _HEADER.pack(_MAGIC, TOKENS_VERSION, 0, len(self.words) // 8) + self.words.tobytes()

    def may_contain(self, token: str) -> bool:
        return self.may_contain_hash(token_hash(token))

    def may_contain_hash(self, value: int) -> bool:
        block = (value >> 32) & (len(self.words) // 8 - 1)
        low = value & 0xFFFFFFFF
        return all(
            self.words[block * 8 + index] >> (((low * salt) & 0xFFFFFFFF) >> 27) & 1
            for index, salt in enumerate(SALTS)
        )

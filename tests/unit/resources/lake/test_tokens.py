"""Tokens as a reader sees them."""

from __future__ import annotations

import pytest

from resources.lake.tokens import TokenBloom, inner_tokens, token_hash, tokens


def test_tokens_are_maximal_runs_and_keep_their_case() -> None:
    assert tokens("Error err_7: größe=10µs /a-B/") == ["Error", "err_7", "größe", "10µs", "a", "B"]


@pytest.mark.parametrize(
    ("fragment", "certain"),
    [
        ("timeout", []),
        (" timeout ", ["timeout"]),
        ("imeout after 30 secon", ["after", "30"]),
        ("", []),
        ("::", []),
    ],
)
def test_only_whole_words_of_a_fragment_are_certain(fragment: str, certain: list[str]) -> None:
    assert inner_tokens(fragment) == certain


def test_every_inner_token_is_a_token_of_any_line_with_the_fragment() -> None:
    fragment = "b c_1-d e"
    for line in (f"x{fragment}y", f" {fragment} ", fragment):
        assert set(inner_tokens(fragment)) <= set(tokens(line))


def test_hashes_are_frozen() -> None:
    """Stored in every bloom: a change needs a new TOKENS_VERSION."""
    assert [token_hash(token) for token in ("a", "abcdefgh", "abcdefghi", "x" * 200)] == FROZEN


def test_an_empty_bloom_knows_nothing() -> None:
    bloom = TokenBloom(memoryview(bytes(32)).cast("I"))
    assert not bloom.may_contain("a")
    assert TokenBloom.from_bytes(bloom.to_bytes()) == bloom


@pytest.mark.parametrize("cut", [0, 5, 20, -1])
def test_damaged_blooms_are_refused(cut: int) -> None:
    raw = TokenBloom(memoryview(bytes(64)).cast("I")).to_bytes()
    with pytest.raises(ValueError, match="token bloom"):
        TokenBloom.from_bytes(raw[:cut])


FROZEN = [1925238059014401293, 6697435715908668346, 9980543511491038976, 6618223919101683413]

"""Logarithms and powers are those of Go's `math`, to the last bit."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakerunner_query.histogram.logarithm_kernels import exp2, ln, log2, log10

OF_GO = """
3db52171002c4fcd c041cca36259be93 c038acd784bf1d66 c0256ebd37df2ebe c00e52ca82bf72cc 3fb28065f4320f79
440ef372c5446ca7 40507cec23539f97 4046db70e1879de1 4033da7f3cf6ceaf 40235e49e6f0a010 4089b54da026476a
4037f457ec63d8a1 4012543235a394eb 400968c3d9818354 3ff611f7956d8342 403dad126f13896a 41c9907a81bf4285
3e957bdb373530db c0359327854c4a70 c02de8b7bfbca457 c019fa8a61b6db60 4034976788a9f822 41381b93cdabd814
3f5d2cd379f201cb c022444461bc839d c01952aec7afb07c c005fec963cbd921 404c578ae4b0f6ba 4379b43f6c8a2e70
40bb6b8978e110be 40298de7efbeb50e 4021b680f28850fe 400ec53d5fb50aec c039620139cba45a 3e588ab2ff81f116
"""
"""By line the bits of x, Log2(x), Log(x), Log10(x), y, Exp2(y), as Go 1.26 on amd64 prints them."""
NUMBERS = st.floats(min_value=1e-300, max_value=1e300)


def test_the_bits_are_those_of_go() -> None:
    bits = np.array([[int(word, 16) for word in line.split()] for line in OF_GO.split("\n")[1:-1]], np.uint64)
    x, of_two, natural, of_ten, y, power = bits.view(np.float64).T.copy()
    for found, expected in ((log2(x), of_two), (ln(x), natural), (log10(x), of_ten), (exp2(y), power)):
        assert found.tobytes() == expected.tobytes()


def test_ends_of_the_range() -> None:
    ends = np.array([0.0, -0.0, -1.0, math.inf, -math.inf, math.nan, 5e-324])
    for found in (log2(ends), ln(ends), log10(ends)):
        assert np.array_equal(np.isnan(found), [False, False, True, False, True, True, False])
        assert found[[0, 1, 3]].tolist() == [-math.inf, -math.inf, math.inf]
    assert log2(ends)[6] == -1074
    powers = exp2(np.array([math.inf, -math.inf, 1024.0, -1074.0, -1080.0, 0.0]))
    assert powers.tolist() == [math.inf, 0.0, math.inf, 5e-324, 0.0, 1.0]
    assert np.isnan(exp2(np.array([math.nan])))[0]


@given(NUMBERS)
def test_logarithms_are_close_to_those_of_python(value: float) -> None:
    one = np.array([value])
    for found, expected in ((ln, math.log), (log2, math.log2), (log10, math.log10)):
        assert math.isclose(found(one)[0], expected(value), rel_tol=1e-15, abs_tol=1e-15)


@given(st.integers(-1074, 1023))
def test_powers_of_two_are_exact(power: int) -> None:
    assert exp2(np.array([float(power)]))[0] == math.ldexp(1.0, power)
    assert log2(np.array([math.ldexp(1.0, power)]))[0] == power

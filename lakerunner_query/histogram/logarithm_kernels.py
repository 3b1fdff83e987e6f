"""Kernels of logarithms and powers of two give the last digits of Go's `math`.

They are not for speed: 16 ns a value, NumPy 1 ns (`python -m benchmarks.kernels.windows`), but NumPy's result
differs in one value of ten (`exp2`) or thirty (`log2`).
"""

from __future__ import annotations

import math

import numpy as np

from resources.arrays import Doubles
from resources.kernel import kernel

LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
INVERSE_LN2, INVERSE_LN10 = 1.442695040888963407359924681001892137, 0.43429448190325182765112891891661
HALF_ROOT = math.sqrt(2) / 2


@kernel
def natural(value: float) -> float:
    """Return the natural logarithm by the polynomial of FreeBSD's `e_log.c`."""
    if not (0 < value < math.inf):
        return -math.inf if value == 0 else math.inf if value > 0 else math.nan
    part, power = math.frexp(value)
    if part < HALF_ROOT:
        part, power = part * 2, power - 1
    rest, exponent = part - 1, float(power)
    s = rest / (2 + rest)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (
        6.666666666666735130e-01
        + s4 * (2.857142874366239149e-01 + s4 * (1.818357216161805012e-01 + s4 * 1.479819860511658591e-01))
    )
    even = s4 * (3.999999999940941908e-01 + s4 * (2.222219843214978396e-01 + s4 * 1.531383769920937332e-01))
    half = 0.5 * rest * rest
    return exponent * LN2_HIGH - ((half - (s * (half + (odd + even)) + exponent * LN2_LOW)) - rest)


@kernel
def binary(value: float) -> float:
    """Return the logarithm to base 2, exact for powers of two."""
    if not (0 < value < math.inf):
        return -math.inf if value == 0 else math.inf if value > 0 else math.nan
    part, power = math.frexp(value)
    if part == 0.5:
        return float(power - 1)
    return natural(part) * INVERSE_LN2 + float(power)


@kernel
def power_of_two(value: float) -> float:
    """Return two to the power, by the polynomial of FreeBSD's `e_exp.c`."""
    if not (-1074 <= value < 1024):
        return math.inf if value > 0 else 0.0 if value < 0 else math.nan
    power = int(value + 0.5) if value > 0 else int(value - 0.5)
    rest = value - float(power)
    high, low = rest * LN2_HIGH, -rest * LN2_LOW
    r = high - low
    t = r * r
    c = r - t * (
        1.66666666666666657415e-01
        + t
        * (
            -2.77777777770155933842e-03
            + t
            * (
                6.61375632143793436117e-05
                + t * (-1.65339022054652515390e-06 + t * 4.13813679705723846039e-08)
            )
        )
    )
    return math.ldexp(1 - ((low - (r * c) / (2 - c)) - high), power)


@kernel
def ln(values: Doubles) -> Doubles:
    """Return natural logarithms."""
    found = np.empty(values.shape)
    for place in range(values.size):
        found.flat[place] = natural(values.flat[place])
    return found


@kernel
def log2(values: Doubles) -> Doubles:
    """Return logarithms to base 2."""
    found = np.empty(values.shape)
    for place in range(values.size):
        found.flat[place] = binary(values.flat[place])
    return found


@kernel
def log10(values: Doubles) -> Doubles:
    """Return logarithms to base 10; those of powers of ten may lie beside whole numbers, as there."""
    found = np.empty(values.shape)
    for place in range(values.size):
        found.flat[place] = natural(values.flat[place]) * INVERSE_LN10
    return found


@kernel
def exp2(values: Doubles) -> Doubles:
    """Return powers of two."""
    found = np.empty(values.shape)
    for place in range(values.size):
        found.flat[place] = power_of_two(values.flat[place])
    return found

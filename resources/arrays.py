"""Array types name the element of a one-dimensional NumPy array."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

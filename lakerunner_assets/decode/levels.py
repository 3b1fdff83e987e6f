"""From what producers say about severity to two columns that can be compared.

`log_level` is the normalised upper-case name: OTLP's severity number first, the sent text otherwise, null
when neither says anything. `detected_level` is Loki's label of that name: the same sources in lower case,
then keywords of the line, then `unknown`; unlike Loki it does not parse JSON or logfmt lines for a level
field.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from resources.arrays import Bytes, Int32s, Int64s
from resources.kernel import kernel

NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
DETECTED = ("trace", "debug", "info", "warn", "error", "fatal", "critical", "unknown")
_TRACE, _DEBUG, _INFO, _WARN, _ERROR, _FATAL, _CRITICAL, _UNKNOWN = range(8)
_WORDS = ("trace", "debug", "fatal", "critical", "error", "err", "warning", "warn", "info")
"""Loki's order of precedence: when a line has several, the first of these wins."""
_LEVEL_OF_WORD = (_TRACE, _DEBUG, _FATAL, _CRITICAL, _ERROR, _ERROR, _WARN, _WARN, _INFO)
_PACKED_WORDS = np.array([int.from_bytes(word.encode(), "big") for word in _WORDS], np.uint64)

_ALIASES = {
    "TRC": "TRACE", "DBG": "DEBUG", "INF": "INFO", "INFORMATION": "INFO", "INFORMATIONAL": "INFO",
    "NOTICE": "INFO", "WARNING": "WARN", "WRN": "WARN", "ERR": "ERROR", "EROR": "ERROR", "SEVERE": "ERROR",
    "CRITICAL": "FATAL", "CRIT": "FATAL", "ALERT": "FATAL", "EMERG": "FATAL", "EMERGENCY": "FATAL",
    "PANIC": "FATAL",
}  # fmt: skip


def level_of_text(text: str) -> str:
    """The normalised level of a severity text; an unknown word is kept, in upper case.

    >>> level_of_text("warning"), level_of_text("Error3"), level_of_text("audit"), level_of_text("")
    ('WARN', 'ERROR', 'AUDIT', '')
    """
    word = text.strip().upper()
    word = _ALIASES.get(word, word)
    numbered = word.rstrip("1234")  # OTel's short names: INFO2, ERROR4
    return numbered if numbered in NAMES else word


def levels(severity: Int32s, severity_text: pa.DictionaryArray) -> pa.DictionaryArray:
    """`log_level` of every record."""
    words = [level_of_text(text) for text in severity_text.dictionary.to_pylist()]
    names = [*NAMES, *sorted(set(words) - set(NAMES) - {""})]
    code_of_word = np.array([names.index(word) if word else -1 for word in words] or [-1], np.int32)
    from_text = code_of_word[severity_text.indices.to_numpy()] if len(severity) else severity
    codes = np.where((severity >= 1) & (severity <= 24), (severity - 1) // 4, from_text).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(names))


def detected_levels(level: pa.DictionaryArray, message: pa.StringArray) -> pa.DictionaryArray:
    """`detected_level` of every record: from its level where that is one of the usual, else from its line."""
    known = [NAMES.index(name) if name in NAMES else -1 for name in level.dictionary.to_pylist()]
    indices = level.indices
    codes = np.array([*known, -1], np.int32)[indices.fill_null(len(known)).to_numpy()]
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        offsets = np.frombuffer(message.buffers()[1], np.int32)[message.offset :]
        text = np.frombuffer(message.buffers()[2] or b"", np.uint8)
        levels_of_lines(offsets, text, unknown, _PACKED_WORDS, codes)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(DETECTED))


@kernel
def levels_of_lines(
    offsets: Int32s, text: Bytes, rows: Int64s, words: npt.NDArray[np.uint64], codes: Int32s
) -> None:
    """The most telling level word of each line, standing alone (`error`, not `errors`), in any case."""
    for row in rows:
        best = len(words)
        packed = np.uint64(0)
        size = 0
        end = offsets[row + 1]
        for position in range(offsets[row], end + 1):
            byte = np.uint8(32) if position == end else text[position]
            if (byte | 32) - 97 < 26 and byte >= 65:
                packed = (packed << np.uint64(8)) | np.uint64(byte | 32)
                size += 1
                continue
            if 48 <= byte <= 57 or byte == 95:
                size += 100  # a digit or underscore makes it another word
                continue
            if 3 <= size <= 8:
                for rank in range(best):
                    if words[rank] == packed:
                        best = rank
                        break
            packed = np.uint64(0)
            size = 0
        codes[row] = _LEVEL_OF_WORD[best] if best < len(words) else _UNKNOWN

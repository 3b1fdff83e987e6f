"""Severities become two columns that can be compared: `log_level` and `detected_level`.

`log_level` is the normalised upper-case name: OTLP's severity number first, the sent text otherwise, null
when neither says anything. `detected_level` is Loki's label of that name: the same sources in lower case,
then keywords of the line, then `unknown`; unlike Loki it does not parse JSON or logfmt lines for a level
field.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakerunner_assets.decode.log_line_kernels import PACKED_LEVEL_WORDS, levels_of_lines
from resources.arrays import Int32s

NAMES = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
DETECTED = ("trace", "debug", "info", "warn", "error", "fatal", "critical", "unknown")

_ALIASES = {
    "TRC": "TRACE", "DBG": "DEBUG", "INF": "INFO", "INFORMATION": "INFO", "INFORMATIONAL": "INFO",
    "NOTICE": "INFO", "WARNING": "WARN", "WRN": "WARN", "ERR": "ERROR", "EROR": "ERROR", "SEVERE": "ERROR",
    "CRITICAL": "FATAL", "CRIT": "FATAL", "ALERT": "FATAL", "EMERG": "FATAL", "EMERGENCY": "FATAL",
    "PANIC": "FATAL",
}  # fmt: skip


def level_of_text(text: str) -> str:
    """Normalise a severity text; an unknown word is kept, in upper case.

    >>> level_of_text("warning"), level_of_text("Error3"), level_of_text("audit"), level_of_text("")
    ('WARN', 'ERROR', 'AUDIT', '')
    """
    word = text.strip().upper()
    word = _ALIASES.get(word, word)
    numbered = word.rstrip("1234")  # OTel's short names: INFO2, ERROR4
    return numbered if numbered in NAMES else word


def levels(severity: Int32s, severity_text: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return `log_level` of every record."""
    words = [level_of_text(text) for text in severity_text.dictionary.to_pylist()]
    names = [*NAMES, *sorted(set(words) - set(NAMES) - {""})]
    code_of_word = np.array([names.index(word) if word else -1 for word in words] or [-1], np.int32)
    from_text = code_of_word[severity_text.indices.to_numpy()] if len(severity) else severity
    codes = np.where((severity >= 1) & (severity <= 24), (severity - 1) // 4, from_text).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(names))


def detect_levels(level: pa.DictionaryArray, message: pa.StringArray) -> pa.DictionaryArray:
    """Return `detected_level` of every record: a usual level as sent, else a keyword of the line."""
    known = [NAMES.index(name) if name in NAMES else -1 for name in level.dictionary.to_pylist()]
    indices = level.indices
    codes = np.array([*known, -1], np.int32)[indices.fill_null(len(known)).to_numpy()]
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        offsets = np.frombuffer(message.buffers()[1], np.int32)[message.offset :]
        text = np.frombuffer(message.buffers()[2] or b"", np.uint8)
        levels_of_lines(offsets, text, unknown, PACKED_LEVEL_WORDS, codes)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(DETECTED))

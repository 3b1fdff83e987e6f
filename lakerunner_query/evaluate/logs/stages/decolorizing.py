"""`| decolorize`: lines without the codes that colour a terminal."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakerunner_query.evaluate.logs.frame import LogFrame

_ESCAPE, _CONTROL = "\x1b", "\x9b"
_CODES = (
    "[\x1b\x9b][\\[\\]()#;?]*"
    "(?:(?:(?:[a-zA-Z\\d]*(?:;[a-zA-Z\\d]*)*)?\x07)|(?:(?:\\d{1,4}(?:;\\d{0,4})*)?[\\dA-PRZcf-ntqry=><~]))"
)


def decolorized(frame: LogFrame) -> LogFrame:
    return frame.with_line(plain_lines(frame.line))


def plain_lines(lines: pa.StringArray) -> pa.StringArray:
    coloured = pc.or_(pc.match_substring(lines, _ESCAPE), pc.match_substring(lines, _CONTROL))
    if not pc.any(coloured).as_py():
        return lines
    return pc.replace_with_mask(
        lines, coloured, pc.replace_substring_regex(lines.filter(coloured), _CODES, "")
    )

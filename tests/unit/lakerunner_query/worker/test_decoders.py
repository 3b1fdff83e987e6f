"""Types of messages are described when their modules are imported, by one thread."""

from __future__ import annotations

import subprocess
import sys

_DECODES = """
import sys
import msgspec
from lakerunner_query.protocol import answers
from lakerunner_query.worker import units
from lakerunner_query.worker.metrics import shards

described = []

def look(frame, event, _):
    if event == "call" and "annotations" in frame.f_code.co_name:
        described.append(frame.f_code.co_name)

sys.setprofile(look)
unit = b'{"type": "metrics", "affinity": "", "text": "m", "start_ms": 0, "end_ms": 0, "step_ms": 0,'
unit += b'"first_ms": 0, "steps": 1, "lookback_ms": 1, "segments": []}'
assert units.decode_unit(bytearray(unit)).text == "m"
for name in dir(answers):
    if name.startswith("decode_"):
        try:
            getattr(answers, name)(b"{}")
        except msgspec.MsgspecError:
            pass
try:
    shards.decode_vector(b"{}")
except msgspec.MsgspecError:
    pass
sys.setprofile(None)
print(len(described))
"""


def test_no_thread_describes_a_type_when_it_decodes() -> None:
    """Two threads that did so at the same time crashed the process."""
    done = subprocess.run([sys.executable, "-c", _DECODES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]

"""The decoders recognise what receivers write, from its first bytes alone."""

from __future__ import annotations

import pytest

from lakerunner_assets.decode.formats import Format, sniff
from lakerunner_ingress.receivers.forms import CheckedPush, Form
from lakerunner_ingress.receivers.loki import read_loki
from lakerunner_ingress.receivers.otlp import read_otlp
from lakerunner_ingress.receivers.remote_write import V1, read_remote_write
from resources.lake.layout import Signal
from resources.proto.loki import PushRequest
from resources.proto.prometheus import WriteRequest
from tests.support.otlp_logs import otlp_logs


def written() -> list[tuple[CheckedPush, Format]]:
    request = WriteRequest()
    request.timeseries.add().labels.add(name="__name__", value="up")
    push = PushRequest()
    push.streams.add(labels='{a="b"}').entries.add(line="x")
    return [
        (read_otlp(otlp_logs([(1, "a")]), Signal.LOGS, Form.OTLP_PROTOBUF), Format.OTLP_PROTOBUF),
        (read_otlp(b'{\n "resourceLogs": [{}]}', Signal.LOGS, Form.OTLP_JSON), Format.OTLP_JSON),
        (read_otlp(b'{"resourceMetrics": [{}]}', Signal.METRICS, Form.OTLP_JSON), Format.OTLP_JSON),
        (read_otlp(b'{"resourceSpans": [{}]}', Signal.TRACES, Form.OTLP_JSON), Format.OTLP_JSON),
        (read_remote_write(request.SerializeToString(), V1), Format.REMOTE_WRITE),
        (read_loki(push.SerializeToString(), json=False), Format.LOKI_PUSH),
    ]


@pytest.mark.parametrize(("received", "format_"), written())
def test_the_decoders_recognise_what_is_written(received: CheckedPush, format_: Format) -> None:
    name = f"a{received.form.suffix}"
    assert sniff((received.form.head + received.data)[:4096], name) is format_

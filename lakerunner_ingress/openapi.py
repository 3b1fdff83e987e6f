"""OpenAPI of the ingress, served under `/schema`: bodies, answers and keys of every endpoint.

Handlers read bodies as bytes, so content types and statuses stand here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import (
    Components,
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    RequestBody,
    Schema,
    SecurityScheme,
)
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType

BINARY = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
OBJECT = Schema(type=OpenAPIType.OBJECT)
TEXT = Schema(type=OpenAPIType.STRING)
KEYS: list[dict[str, list[str]]] = [{"bearer": []}, {"basic": []}, {"apiKey": []}, {"cardinalhqApiKey": []}]


@dataclass(frozen=True, slots=True)
class Documentation:
    """Content types of an endpoint's body, and what its answers mean by status."""

    tag: str
    bodies: dict[str, Schema]
    answers: dict[str, str]
    media: dict[str, Schema] = field(default_factory=lambda: {"text/plain": TEXT})
    """Content types of answers."""


_REFUSED = {
    "400": "Not what the content type says, or a part was left out and the rest is durable.",
    "401": "No key, or an unknown one.",
    "403": "A key that may only read, or another organisation's X-Scope-OrgID.",
    "408": "The body took too long.",
    "413": "Too large, as sent or once opened, or too costly to check.",
    "415": "Another content type or encoding.",
    "429": "The organisation has too much under way or is over its quota; see Retry-After.",
    "503": "Nothing was stored; send it again.",
}
_PROTOBUF_OR_JSON = {"application/x-protobuf": BINARY, "application/json": OBJECT}
_DURABLE = "Durable, and announced to the pipeline."
OTLP_PUSH = Documentation("push", _PROTOBUF_OR_JSON, {"200": _DURABLE, **_REFUSED}, _PROTOBUF_OR_JSON)
REMOTE_WRITE_PUSH = Documentation("push", {"application/x-protobuf": BINARY}, {"204": _DURABLE, **_REFUSED})
LOKI_PUSH = Documentation("push", _PROTOBUF_OR_JSON, {"204": _DURABLE, **_REFUSED})
PROFILES = Documentation("push", _PROTOBUF_OR_JSON, {"501": "Profiles are not stored."}, _PROTOBUF_OR_JSON)
_ENVELOPE = {"application/json": OBJECT}
NOTIFICATION = Documentation(
    "notifications",
    {"application/json": OBJECT},
    {
        "200": "An answer to a handshake.",
        "202": "References are durable; the body says which records were rejected.",
        "204": "An answer to a question about methods.",
        "400": "No record could be used.",
        "401": "No secret, or an unknown one.",
        "403": "A key that may only read.",
        "413": "Larger than 1 MiB.",
        "429": "Too many requests are waiting.",
        "503": "Neither Kafka nor PostgreSQL takes references.",
    },
    _ENVELOPE,
)
HEALTH = Documentation("health", {}, {"200": "Fine, or degraded.", "503": "Down."}, _ENVELOPE)

TEXT_HEALTH = Documentation("health", {}, {"200": "Fine."})


def documented(known: Documentation) -> type[Operation]:
    """Return an operation with this documentation in place of what the handler's types say."""

    @dataclass
    class Documented(Operation):
        def __post_init__(self) -> None:
            self.tags = [known.tag]
            self.responses = {
                status: OpenAPIResponse(
                    description=text,
                    content=None
                    if status == "204"
                    else {media: OpenAPIMediaType(schema=schema) for media, schema in known.media.items()},
                )
                for status, text in known.answers.items()
            }
            if known.bodies:
                content = {media: OpenAPIMediaType(schema=schema) for media, schema in known.bodies.items()}
                self.request_body = RequestBody(content=content, required=False)
            self.security = [] if known.tag == "health" else list(KEYS)

    return Documented


OPENAPI = OpenAPIConfig(
    title="Lakerunner ingress",
    version="0.1.0",
    path="/schema",
    components=Components(
        security_schemes={
            "bearer": SecurityScheme(type="http", scheme="bearer"),
            "basic": SecurityScheme(type="http", scheme="basic"),
            "apiKey": SecurityScheme(type="apiKey", name="api-key", security_scheme_in="header"),
            "cardinalhqApiKey": SecurityScheme(
                type="apiKey", name="x-cardinalhq-api-key", security_scheme_in="header"
            ),
        }
    ),
)

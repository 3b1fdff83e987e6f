"""Flight SQL: the commands, tickets and actions of its clients, and what actions of Flight itself carry.

A command travels as `google.protobuf.Any`; `unpack` finds its class by the name at the end of the type's URL.
Enumerations are plain integers here: a value that is unknown to us must survive.
"""

from __future__ import annotations

from typing import Any

from resources.proto.build import build
from resources.proto.parsing import NotAMessageError, parse

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_KEYS = """
  1 catalog string?
  2 db_schema string?
  3 table string
"""
_SQL = build(
    "arrow.flight.protocol.sql",
    f"""
CommandStatementQuery
  1 query string
  2 transaction_id bytes?
CommandStatementUpdate
  1 query string
  2 transaction_id bytes?
CommandPreparedStatementQuery
  1 prepared_statement_handle bytes
CommandPreparedStatementUpdate
  1 prepared_statement_handle bytes
CommandGetCatalogs
CommandGetDbSchemas
  1 catalog string?
  2 db_schema_filter_pattern string?
CommandGetTables
  1 catalog string?
  2 db_schema_filter_pattern string?
  3 table_name_filter_pattern string?
  4 table_types string*
  5 include_schema bool
CommandGetTableTypes
CommandGetSqlInfo
  1 info uint32*
CommandGetXdbcTypeInfo
  1 data_type int32?
CommandGetPrimaryKeys{_KEYS}
CommandGetExportedKeys{_KEYS}
CommandGetImportedKeys{_KEYS}
CommandGetCrossReference
  1 pk_catalog string?
  2 pk_db_schema string?
  3 pk_table string
  4 fk_catalog string?
  5 fk_db_schema string?
  6 fk_table string
TicketStatementQuery
  1 statement_handle bytes
ActionCreatePreparedStatementRequest
  1 query string
  2 transaction_id bytes?
ActionCreatePreparedStatementResult
  1 prepared_statement_handle bytes
  2 dataset_schema bytes
  3 parameter_schema bytes
ActionClosePreparedStatementRequest
  1 prepared_statement_handle bytes
ActionCancelQueryRequest
  1 info bytes
ActionCancelQueryResult
  1 result int32
DoPutPreparedStatementResult
  1 prepared_statement_handle bytes?
""",
)
_FLIGHT = build(
    "arrow.flight.protocol",
    """
Ticket
  1 ticket bytes
FlightEndpoint
  1 ticket Ticket
FlightInfo
  3 endpoint FlightEndpoint*
CancelFlightInfoRequest
  1 info FlightInfo
CancelFlightInfoResult
  1 status int32
CloseSessionResult
  1 status int32
""",
)
_Any = build("google.protobuf", "Any\n  1 type_url string\n  2 value bytes")["Any"]
CANCELLED, NOT_CANCELLABLE = 1, 3
"""Results of both ways to cancel."""
CLOSED = 1

CreatePreparedStatement = _SQL["ActionCreatePreparedStatementRequest"]
CreatedPreparedStatement = _SQL["ActionCreatePreparedStatementResult"]
ClosePreparedStatement = _SQL["ActionClosePreparedStatementRequest"]
CancelQuery = _SQL["ActionCancelQueryRequest"]
CancelQueryResult = _SQL["ActionCancelQueryResult"]
BoundParameters = _SQL["DoPutPreparedStatementResult"]
StatementTicket = _SQL["TicketStatementQuery"]
FlightInfo = _FLIGHT["FlightInfo"]
CancelFlightInfo = _FLIGHT["CancelFlightInfoRequest"]
CancelFlightInfoResult = _FLIGHT["CancelFlightInfoResult"]
CloseSessionResult = _FLIGHT["CloseSessionResult"]


def pack(message: Any) -> bytes:
    """Wrap a message with the name of its type."""
    url = f"{_PREFIX}{message.DESCRIPTOR.name}"
    packed: bytes = _Any(type_url=url, value=message.SerializeToString()).SerializeToString()
    return packed


def unpack(data: bytes, kind: Any = None) -> Any:
    """Return the message within, which must be a `kind` if one is given.

    >>> unpack(pack(StatementTicket(statement_handle=b"x"))).statement_handle
    b'x'
    """
    found = parse(_Any, data)
    name = found.type_url.removeprefix(_PREFIX)
    if not found.type_url.startswith(_PREFIX) or name not in _SQL:
        raise NotAMessageError(f"no message of Flight SQL: {found.type_url[:100]!r}")
    if kind is not None and _SQL[name] is not kind:
        raise NotAMessageError(f"expected {kind.DESCRIPTOR.name}, found {name}")
    return parse(_SQL[name], found.value)

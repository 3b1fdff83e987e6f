"""Message classes are built from a table that reads like the protocol's documentation.

A message is a name in a line of its own, a field is `number name type` with `*` for repeated, `?` for
optional with presence, and `map:` for values by text:

>>> classes = build("doctest", "Point\\n  1 x int32\\n  2 tags string*")
>>> classes["Point"].FromString(b"\\x08\\x05").x
5
"""

from __future__ import annotations

from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}
_KEPT: list[Any] = []
"""Every class ever built: the pool holds none, and asking a field for a class that was collected fails."""


def build(package: str, table: str) -> dict[str, Any]:
    """Build the classes by name, in a pool of their own: no other library's can be in the way."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for line in table.splitlines():
        words = line.split()
        if len(words) == 1:
            file.message_type.add(name=words[0])
        elif words:
            _add_field(package, file.message_type[-1], *words)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    classes = {
        n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in names
    }
    _KEPT.extend(classes.values())
    return classes


def _add_field(package: str, message: Any, number: str, name: str, kind: str) -> None:
    if kind.startswith("map:"):
        entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _add_field(package, entry, "1", "key", "string")
        _add_field(package, entry, "2", "value", kind.removeprefix("map:"))
        kind = f"{message.name}.{entry.name}*"
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.endswith("*"):
        field.label = _Field.LABEL_REPEATED
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    bare = kind.rstrip("*?")
    if bare in _SCALARS:
        field.type = _SCALARS[bare]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{bare}"

"""One row per intrinsic: the fields that a span has beside its attributes.

{ span:kind = server && traceDuration > 1s }

kind           span:kind, kind               a field of the span
traceDuration  trace:duration, traceDuration the same for all spans of a trace
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from lakerunner_query.traceql.lang.ast import Type


class Home(Enum):
    """The part of a trace that holds the value."""

    SPAN = "span"
    TRACE = "trace"
    """One value for all spans of a trace."""
    TREE = "tree"
    """Place in the tree of the trace, known once all of its spans are."""
    EVENT = "event"
    """One value per event of the span; any of them may meet a condition."""
    LINK = "link"
    INSTRUMENTATION = "instrumentation"

    @property
    def is_repeated(self) -> bool:
        return self in {Home.EVENT, Home.LINK}


@dataclass(frozen=True, slots=True)
class IntrinsicRow:
    """Facts about an intrinsic. No field has a default."""

    word: str
    """Spelling without a scope; empty if there is none."""
    scoped: str
    """Spelling with a scope, `span:kind`; empty if there is none."""
    type: Type
    home: Home
    is_listed: bool
    """Lists of tag names show all of its spellings."""
    is_supported: bool
    """Queries may use it; the others parse, and are refused."""

    @property
    def name(self) -> str:
        """Name in trees, printed queries, labels of series and shown fields."""
        return self.word or self.scoped

    @property
    def spellings(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.word, self.scoped)))


LISTED, UNLISTED = True, False
_STRING, _DURATION, _INTEGER = Type.STRING, Type.DURATION, Type.INTEGER
_SPAN, _TRACE, _TREE, _EVENT, _LINK = Home.SPAN, Home.TRACE, Home.TREE, Home.EVENT, Home.LINK
_SCOPE = Home.INSTRUMENTATION

# fmt: off
INTRINSICS: Mapping[str, IntrinsicRow] = MappingProxyType({row.name: row for row in (
    #            word               with its scope             type         home    in lists  supported
    IntrinsicRow("name",            "span:name",               _STRING,     _SPAN,  LISTED,   True),
    IntrinsicRow("duration",        "span:duration",           _DURATION,   _SPAN,  LISTED,   True),
    IntrinsicRow("status",          "span:status",             Type.STATUS, _SPAN,  LISTED,   True),
    IntrinsicRow("statusMessage",   "span:statusMessage",      _STRING,     _SPAN,  LISTED,   True),
    IntrinsicRow("kind",            "span:kind",               Type.KIND,   _SPAN,  LISTED,   True),
    IntrinsicRow("",                "span:id",                 _STRING,     _SPAN,  LISTED,   True),
    IntrinsicRow("",                "span:parentID",           _STRING,     _SPAN,  LISTED,   True),
    IntrinsicRow("",                "span:childCount",         _INTEGER,    _TREE,  UNLISTED, True),
    IntrinsicRow("parent",          "",                        Type.NIL,    _TREE,  UNLISTED, False),
    IntrinsicRow("nestedSetLeft",   "",                        _INTEGER,    _TREE,  UNLISTED, True),
    IntrinsicRow("nestedSetRight",  "",                        _INTEGER,    _TREE,  UNLISTED, True),
    IntrinsicRow("nestedSetParent", "",                        _INTEGER,    _TREE,  UNLISTED, True),
    IntrinsicRow("traceDuration",   "trace:duration",          _DURATION,   _TRACE, LISTED,   True),
    IntrinsicRow("rootName",        "trace:rootName",          _STRING,     _TRACE, LISTED,   True),
    IntrinsicRow("rootServiceName", "trace:rootService",       _STRING,     _TRACE, LISTED,   True),
    IntrinsicRow("",                "trace:id",                _STRING,     _TRACE, LISTED,   True),
    IntrinsicRow("",                "event:name",              _STRING,     _EVENT, LISTED,   True),
    IntrinsicRow("",                "event:timeSinceStart",    _DURATION,   _EVENT, LISTED,   True),
    IntrinsicRow("",                "link:spanID",             _STRING,     _LINK,  LISTED,   True),
    IntrinsicRow("",                "link:traceID",            _STRING,     _LINK,  LISTED,   True),
    IntrinsicRow("",                "instrumentation:name",    _STRING,     _SCOPE, LISTED,   True),
    IntrinsicRow("",                "instrumentation:version", _STRING,     _SCOPE, LISTED,   True),
)})
# fmt: on

WORDS = MappingProxyType({row.word: name for name, row in INTRINSICS.items() if row.word})
"""Names by the word that stands alone."""


def _behind(scope: str) -> Mapping[str, str]:
    scoped = ((row.scoped.partition(":"), name) for name, row in INTRINSICS.items())
    return MappingProxyType({word: name for (before, _, word), name in scoped if before == scope})


SCOPED = MappingProxyType(
    {scope: _behind(scope) for scope in ("span", "trace", "event", "link", "instrumentation")}
)
"""Names by scope and the word behind its colon."""
TAG_NAMES = tuple(
    sorted(spelling for row in INTRINSICS.values() if row.is_listed for spelling in row.spellings)
)
"""Names that lists of tags show in the scope `intrinsic`."""

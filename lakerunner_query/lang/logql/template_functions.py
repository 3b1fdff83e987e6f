"""The names that a template of `line_format` and `label_format` may call.

What the functions do is with the evaluation; a test holds that these are its names.
"""

from __future__ import annotations

TEMPLATE_FUNCTIONS = frozenset(
    (
        *("Replace", "ToLower", "ToUpper", "Trim", "TrimLeft", "TrimPrefix", "TrimRight", "TrimSpace"),
        *("TrimSuffix", "__line__", "__timestamp__", "add", "addf", "alignLeft", "alignRight", "and"),
        *("b64dec", "b64enc", "bytes", "call", "ceil", "contains", "count", "date", "default", "div"),
        *("divf", "duration", "duration_seconds", "eq", "float64", "floor", "fromJson", "ge", "gt"),
        *("hasPrefix", "hasSuffix", "html", "indent", "index", "int", "js", "le", "len", "lower", "lt"),
        *("max", "maxf", "min", "minf", "mod", "mul", "mulf", "ne", "nindent", "not", "now", "or"),
        *("print", "printf", "println", "regexReplaceAll", "regexReplaceAllLiteral", "repeat"),
        *("replace", "round", "slice", "sub", "subf", "substr", "title", "toDate", "toDateInZone"),
        *("trim", "trimAll", "trimPrefix", "trimSuffix", "trunc", "unixEpoch", "unixEpochMillis"),
        *("unixEpochNanos", "unixToTime", "upper", "urldecode", "urlencode", "urlquery"),
    )
)

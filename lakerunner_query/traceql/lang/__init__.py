"""TraceQL as text and as a tree: lexer, parser, checks, printer and analysis."""

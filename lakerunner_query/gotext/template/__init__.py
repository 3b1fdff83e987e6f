"""Go's `text/template`: lexer, parser, execution and built-in functions."""

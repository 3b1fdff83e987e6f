"""The lexer, parser, type checker and printer of PromQL."""

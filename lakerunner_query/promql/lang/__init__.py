"""PromQL's lexer, parser, type checker and printer."""

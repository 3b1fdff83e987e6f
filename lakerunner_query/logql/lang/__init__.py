"""LogQL's lexer, parser, checker and printer."""

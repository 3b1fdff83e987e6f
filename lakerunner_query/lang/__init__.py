"""Query languages: text to frozen syntax trees with positions.

One package per language; each has a lexer, a parser, a printer and an AST that knows nothing of storage.
Semantics (what a tree means for segments and rows) live in `plan`.
"""

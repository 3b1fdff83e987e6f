"""Go's text/template as a language: text to tree, with Go's words for what is wrong with it.

`parser.parse` needs to know which functions exist, nothing else; what they do is with the evaluation. LogQL
writes such templates in `line_format` and `label_format`, so that a bad one fails when the query is parsed.
"""

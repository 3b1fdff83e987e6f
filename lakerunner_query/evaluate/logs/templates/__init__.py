"""Templates of `line_format` and `label_format`, run over label columns.

`template.compiled` gives a `Template`; `rendering.py` runs it once per distinct combination of what it reads.
The rest is Go as templates see it: values and their types, formatting, times, and the functions of Loki.
"""

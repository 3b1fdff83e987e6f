"""Templates of `line_format` and `label_format` run over columns, once per distinct value."""

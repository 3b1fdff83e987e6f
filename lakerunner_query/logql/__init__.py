"""LogQL from text to lines and samples: `lang` parses, `stages` run over frames, `metrics` counts."""

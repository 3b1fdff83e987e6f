"""PromQL from text to series: `lang` parses, `functions` computes, `evaluate.py` walks the tree."""

"""The demo: a small shop that never closes, watched live.

`shop.py` says what its eight services log, `otlp.py` packs it as a collector would, `generator.py` puts it
into the raw bucket, `watch.py` asks how far it came, `screen.py` shows it, `story.py` is the order of it all.
"""

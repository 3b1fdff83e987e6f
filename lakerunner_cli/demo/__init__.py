"""The demo: a small shop that never closes, watched live.

`shop.py` makes the logs of its eight services, `otlp.py` packs them as a collector would, `generator.py` puts
them into the raw bucket, `watch.py` shows their way through the pipeline, `story.py` runs all steps in order.
"""

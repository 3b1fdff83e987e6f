"""The pipeline: assets per organisation and hour, and the Spark tasks that do their work.

The folder names tell the flow: `raw` objects become `cooked` segments. Start at `graph.py` (the chain as
data), then a tier's `asset.py` (the framework's edge), `plan.py` (pure decisions) and its transforms.
"""

"""The pipeline consists of assets per organisation and hour, and of Spark tasks.

The folder names tell the flow: `raw` objects become `cooked` segments. Start at `graph.py` (the chain as
data), then a tier's `asset.py` (the framework's edge), `plan.py` (pure decisions) and its transforms.
"""

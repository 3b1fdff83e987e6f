"""The pipeline and the queries share the names and formats of the lake.

`timecut.py` cuts time, `layout.py` spells object keys, and the other modules define what is stored
inside a segment besides its columns. Writers live in `lakerunner_assets`, readers in `lakerunner_query`.
"""

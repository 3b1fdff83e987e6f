"""Names and formats of the lake, shared by the pipeline that writes it and the queries that read it.

`timecut.py` cuts time, `layout.py` spells object keys, and the other modules define what is stored
inside a segment besides its columns. Writers live in `lakerunner_assets`, readers in `lakerunner_query`.
"""

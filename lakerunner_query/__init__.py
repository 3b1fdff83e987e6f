"""The query side answers PromQL and LogQL over HTTP.

`app.py` starts the API process (`api`, `coordinator`), `worker_app.py` a worker (`worker`); `protocol` is
what passes between them. `plan` decides what is read, each language has a room, and `histogram`, `vectors`,
`windows` and `gotext` are what languages share.
"""

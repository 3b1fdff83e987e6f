"""Object storage over obstore: one client for `file://`, `s3://`, `gs://` and `az://`.

`backend.py` turns a URL into an obstore store, `client.py` is what the rest of the code calls, `retry.py` and
`latency.py` wrap each of its calls, `errors.py` says what can go wrong. Import from `resources.objects.store`.
"""

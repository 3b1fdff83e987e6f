"""The ingress: notification adapters and push receivers.

It writes raw objects, Kafka references, the outbox and dead letters, and reads API keys and the registry;
decoding belongs to `lakerunner_assets`, queries to `lakerunner_query`. Start at `app.py`, then
`notifications/pipeline.py` and `receivers/receive.py`.
"""

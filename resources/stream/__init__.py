"""Kafka over librdkafka: `producer.py` sends, `reader.py` reads a bounded run, `values.py` says what travels.

Import from `resources.kafka.producer`.
"""

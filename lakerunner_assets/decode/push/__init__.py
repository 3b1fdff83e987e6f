"""Push receivers keep Prometheus remote write and Loki push as their senders encoded them."""

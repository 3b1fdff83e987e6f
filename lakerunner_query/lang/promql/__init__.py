"""PromQL as Prometheus 3 speaks it: text to a typed tree with places, and back."""

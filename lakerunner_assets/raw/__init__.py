"""Raw objects: what lies in the raw buckets, registered by notification or, as a safety net, by listing."""

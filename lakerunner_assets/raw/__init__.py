"""Raw objects are registered by notification or, as a safety net, by listing."""

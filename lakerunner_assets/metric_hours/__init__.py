"""Hours of metrics made by rules are claimed, made and swapped whole."""

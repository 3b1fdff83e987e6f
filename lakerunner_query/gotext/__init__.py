"""Go's text rules, written once: quoting, numbers, durations, regular expressions, times, `fmt`."""

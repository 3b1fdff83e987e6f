"""Recorded metrics are the results of recording rules over event time."""

"""Notifications of object stores, from bytes to a reference that can be placed in the lake."""

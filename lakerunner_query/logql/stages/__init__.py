"""Pipeline stages compute over the columns of a frame."""

"""One file per stage of a log pipeline; each takes a frame and gives a frame."""

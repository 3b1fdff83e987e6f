"""One folder per API dialect, and `shared` for what every request needs; Litestar stays here."""

"""Range functions over samples and over rollups give the same answers here."""

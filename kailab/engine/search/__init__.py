"""Room made by others' going: which victims may be taken, in which sets they are tried, and what shows that a search is in vain."""

"""Node images for kind, made here: a Debian base and the pinned programs, nothing from an image registry."""

"""What happened in a lab: recorded, kept, checked and compared. Everything here works from a folder alone."""

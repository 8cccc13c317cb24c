"""What would be decided if one thing did not stand in the way: cycles on a changed input, for whoever wants to know what does."""

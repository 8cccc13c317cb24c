"""What Acme adds to kailab."""

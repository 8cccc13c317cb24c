"""The command line: kailab's faces for people who type. Nothing here decides; it reads, calls and prints."""

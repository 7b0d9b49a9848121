"""The command line; with testing the only one that knows all rooms."""

"""A shop of our own with a lossy payment provider, and the story that make demo tells."""

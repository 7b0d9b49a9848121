"""What an agent imports: runs, calls, observations. Loads neither Faust nor a web framework."""

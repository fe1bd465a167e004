"""The same from Python as from the command line."""

"""Trained networks as folders: written, read back, measured again, shown."""

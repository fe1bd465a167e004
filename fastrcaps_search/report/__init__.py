"""What is shown: one self-contained page per study."""

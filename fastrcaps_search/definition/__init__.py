"""What is asked: objectives, space, trial parameters and study definitions."""

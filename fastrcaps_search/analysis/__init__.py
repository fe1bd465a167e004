"""What follows from the records of a study: its front, how sure it is, what is left to do."""

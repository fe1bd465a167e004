"""What is kept: the SQL store of studies, trials, runs and epochs."""

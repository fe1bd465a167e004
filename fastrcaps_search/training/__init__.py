"""One run: parameters and a seed in, epoch records and three values out."""

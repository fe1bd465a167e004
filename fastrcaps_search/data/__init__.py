"""The images to train on: what is known of each data set, and how it is read."""

"""The whole CapsNet written out for processors: forward, backward, and updates in the cache."""

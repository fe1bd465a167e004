"""What a network computes on CUDA devices by kernels of its own; torch does the rest."""

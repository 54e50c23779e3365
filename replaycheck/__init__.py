"""replaycheck: numerical correctness and precision study of recurrent-state decode kernels."""

__version__ = "0.1.0"

"""Production Triton kernels for recurrent-state decode. Needs torch and triton only."""

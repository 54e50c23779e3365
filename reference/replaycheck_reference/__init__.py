"""Exact reference recurrences, number formats and error gauges. Imports neither kernels nor the checker."""

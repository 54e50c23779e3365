"""The recurrences in float64 on torch, for whole batches of windows. Pinned to the scalar specs."""

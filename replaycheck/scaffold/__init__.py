"""The skeleton of a new kernel: an adapter that runs, claims, tests and CI."""

from .scaffold import Scaffold, made_of, write_scaffold

__all__ = ["Scaffold", "made_of", "write_scaffold"]

"""Recording what the recurrent layers of a model receive."""

from .recorder import Recorder, Sampling, record

__all__ = ["Recorder", "Sampling", "record"]

"""A small hybrid language model of Mamba-2 and gated delta layers, trained here: decays, gates and activations with structure."""

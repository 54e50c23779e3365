"""Which backend function table the kernels of a device are judged with."""

from __future__ import annotations

from replaycheck_reference.gauge.functions import FunctionTable, available_tables, envelope, load_table

__all__ = ["table_of"]


def table_of(device: str) -> FunctionTable:
    """numpy's for the interpreter; on a CUDA device the one measured on a device of its name, else the largest error of all tables."""
    if not device.startswith("cuda"):
        return load_table("numpy")
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name(device)
        for table in map(load_table, available_tables()):
            if table.source.get("device") == name:
                return table
    return envelope()

"""The text the model is trained on: docstrings of the Python standard library, which every Python ships with."""

from __future__ import annotations

import ast
import hashlib
import sysconfig
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["corpus", "digest", "parts"]

#: Folders of the standard library whose docstrings are not prose or that an installation may add to.
_LEFT_OUT = frozenset({"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "__pycache__", "turtledemo"})
_SHORTEST = 80      # characters; shorter docstrings are labels
_HELD_OUT = 12      # one module in twelve


def corpus() -> bytes:
    """All docstrings of at least 80 characters, module by module in the order of their paths, ASCII only: bytes.

    Deterministic in the version of Python; `digest` names the text.
    """
    return b"".join(_read())


def parts() -> tuple[Tensor, Tensor]:
    """The bytes to train on and those held out (every twelfth module): two uint8 vectors."""
    texts = _read()
    train = b"".join(text for i, text in enumerate(texts) if i % _HELD_OUT)
    held = b"".join(text for i, text in enumerate(texts) if not i % _HELD_OUT)
    return _bytes(train), _bytes(held)


def digest(text: bytes) -> str:
    """SHA-256 of the text, in hex."""
    return hashlib.sha256(text).hexdigest()


def _read() -> list[bytes]:
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(path.relative_to(root) for path in root.rglob("*.py") if not _LEFT_OUT & set(path.relative_to(root).parts))
    return [text for text in (_docstrings(root / file) for file in files) if text]


def _docstrings(path: Path) -> bytes:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return b""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
    kept = [text for text in found if text is not None and len(text) >= _SHORTEST and text.isascii()]
    return "".join(f"{text}\n\n\n" for text in kept).encode()


def _bytes(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)

"""Models that can be recorded by name, and how they are run: a prefill, then one token at a time over the same text."""

from __future__ import annotations

import argparse
import doctest
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from replaycheck.cases.recordings import Recording
from replaycheck.contract.errors import UsageError
from replaycheck.trained.weights import trained_model, training

from .recorder import Sampling, record

__all__ = ["Opened", "decoded", "opened_model"]

#: Text that every Python ships with: docstrings of three modules.
_TEXT = f"{argparse.__doc__}\n{doctest.__doc__}\n{json.__doc__}\n"


@dataclass(frozen=True)
class Opened:
    """A model ready to be run. source: what it is. tokens_of: the tokens of a text, int64. run: tokens [requests, n] and what the last call
    returned or None, to what the next is given."""

    module: nn.Module
    source: str
    tokens_of: Callable[[str], Tensor]
    run: Callable[[Tensor, Any], Any]


def opened_model(name: str, *, seed: int = 0) -> Opened:
    """The model of a name: "trained", the one trained here; "mamba2-random", a small random Mamba-2 of transformers drawn from `seed`; else
    the directory of a Mamba-2 model that transformers wrote, with its tokenizer. Nothing is downloaded.

    Raises UsageError where it cannot be opened.
    """
    if name == "trained":
        model, said = trained_model(), training()
        return Opened(model, f"the model {said['description']}, {said['loss_after']} nats a byte", _bytes,
                      lambda tokens, caches: model(tokens, model.empty(len(tokens)) if caches is None else caches)[1])
    if name != "mamba2-random" and not Path(name).is_dir():
        raise UsageError(f"model {name!r} is neither 'trained', 'mamba2-random' nor a directory")
    transformers = _transformers(name)
    if name == "mamba2-random":
        torch.manual_seed(seed)
        config = transformers.Mamba2Config(hidden_size=64, expand=2, num_heads=4, head_dim=32, state_size=32, n_groups=2, chunk_size=32,
                                           num_hidden_layers=2, vocab_size=256)
        return _with_cache(transformers.Mamba2ForCausalLM(config), f"a random Mamba-2 of transformers, seed {seed}", _bytes)
    return _saved(transformers, Path(name))


def _saved(transformers: Any, home: Path) -> Opened:
    # transformers fills what a directory lacks by a default configuration and by random weights, with no more than a warning
    if (kind := _model_type(home)) != "mamba2":
        raise UsageError(f"model {home} cannot be opened: config.json names model_type {kind!r}, not 'mamba2'")
    try:
        module, loaded = transformers.Mamba2ForCausalLM.from_pretrained(home, local_files_only=True, output_loading_info=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(home, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise UsageError(f"model {home} cannot be opened: {str(error).splitlines()[0]}") from error
    if loaded["missing_keys"]:
        raise UsageError(f"model {home} cannot be opened: its weights lack {sorted(loaded['missing_keys'])[0]}")
    return _with_cache(module, f"Mamba-2 model {home.name}", lambda text: torch.tensor(tokenizer(text)["input_ids"], dtype=torch.int64))


def _model_type(home: Path) -> object:
    try:
        config = json.loads((home / "config.json").read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"model {home} cannot be opened: config.json: {getattr(error, 'strerror', None) or error}") from error
    return config.get("model_type") if isinstance(config, dict) else config


def decoded(model: Opened, sampling: Sampling, *, requests: int = 2, prefill: int = 64, text: Path | None = None) -> Recording:
    """The recording of `requests` requests side by side, each a piece of the text: `prefill` tokens at once, then one at a time for as long
    as the sample asks. text: UTF-8 file, else docstrings of Python. Raises UsageError where the text is too short or cannot be read.
    """
    tokens = model.tokens_of(_TEXT if text is None else _read(text))
    steps = sampling.first + (sampling.stretches - 1) * sampling.gap + sampling.tokens
    length = prefill + steps
    if len(tokens) < requests * length:
        raise UsageError(f"the text has {len(tokens)} tokens; {requests} requests of {length} need {requests * length}")
    gap = len(tokens) // requests
    rows = torch.stack([tokens[i * gap: i * gap + length] for i in range(requests)])
    source = f"{model.source}; {requests} requests, prefill of {prefill} tokens"
    with torch.inference_mode(), record(model.module, sampling, source=source) as recorder:
        kept = model.run(rows[:, :prefill], None) if prefill else None
        for at in range(prefill, length):
            kept = model.run(rows[:, at:at + 1], kept)
    return recorder.recording()


def _with_cache(module: Any, source: str, tokens_of: Callable[[str], Tensor]) -> Opened:
    module.eval()
    # a model takes an argument that it does not know without a word, and then decodes without what it has seen
    name = next((name for name in ("cache", "cache_params") if name in inspect.signature(module.forward).parameters), None)
    if name is None:
        raise UsageError(f"{source} of this release of transformers takes neither cache nor cache_params")

    def run(tokens: Tensor, cache: Any) -> Any:
        cache = cache or _transformers(source).DynamicCache(config=module.config)
        module(tokens, **{name: cache}, use_cache=True)
        return cache

    return Opened(module, source, tokens_of, run)


def _transformers(name: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UsageError(f"model {name!r} needs transformers, which is not installed: pip install transformers") from error
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _bytes(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.int64)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"text {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error

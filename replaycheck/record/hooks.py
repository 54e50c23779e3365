"""Hooks: where in a model its recurrent layers are, and how to see what each of them receives."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from replaycheck.cases.recordings import RecordedLayer
from replaycheck.contract.errors import UsageError
from replaycheck.trained.recurrences import GatedDeltaRecurrence, Mamba2Recurrence
from replaycheck_reference.variant import Mamba2Variant

__all__ = ["Call", "Hook", "hooks_of", "watching"]

_TRANSFORMERS = "transformers.models.mamba2.modeling_mamba2"


@dataclass(frozen=True)
class Call:
    """One call of a recurrence. start: the state before it, [requests, ...], None for zero; tokens: by name, [requests, tokens, ...].

    The tensors are those of the model: they are valid until the call goes on.
    """

    start: Tensor | None
    tokens: Mapping[str, Tensor]

    @property
    def requests(self) -> int:
        return int(next(iter(self.tokens.values())).shape[0])

    @property
    def length(self) -> int:
        return int(next(iter(self.tokens.values())).shape[1])


@dataclass(frozen=True)
class Hook:
    """One recurrent layer of a model. layer: what is known of it before it has received anything. module: which to watch."""

    layer: RecordedLayer
    module: nn.Module = field(repr=False)


def hooks_of(model: nn.Module) -> list[Hook]:
    """The recurrent layers of a model in its order: those of the model trained here and Mamba-2 mixers of transformers.

    Raises UsageError naming the class of the model where it has none.
    """
    found = [Hook(_LAYERS[kind](name, module), module) for name, module in model.named_modules() if (kind := _kind(module)) in _LAYERS]
    if not found:
        raise UsageError(f"model {type(model).__name__} has no recurrent layer that can be recorded; known are {', '.join(_LAYERS)}")
    return found


@contextmanager
def watching(hooks: list[Hook], seen: Callable[[int, Call], None]) -> Iterator[None]:
    """While inside, call `seen` with the number of the hook before every call of its recurrence."""
    with ExitStack() as stack:
        for number, hook in enumerate(hooks):
            if _kind(hook.module) != "Mamba2Mixer":
                names = tuple(_TOKENS[hook.layer.recurrence])
                handle = hook.module.register_forward_pre_hook(_direct(number, names, seen))
                stack.callback(handle.remove)
        mixers = {id(hook.module): number for number, hook in enumerate(hooks) if _kind(hook.module) == "Mamba2Mixer"}
        if mixers:
            stack.enter_context(_watching_mixers(hooks, mixers, seen))
        yield


def _kind(module: nn.Module) -> str:
    return type(module).__name__ if type(module).__module__ in (_TRANSFORMERS, Mamba2Recurrence.__module__) else ""


# -- the model trained here: the recurrence is a module, called with its tokens and its start state

_TOKENS = {"mamba2": ("x", "dt", "B", "C", "z"), "gdn": ("q", "k", "v", "a", "b")}


def _direct(number: int, names: tuple[str, ...], seen: Callable[[int, Call], None]) -> Callable[[nn.Module, Any], None]:
    def before(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen(number, Call(given[-1], dict(zip(names, given[:-1], strict=True))))
    return before


def _mamba2(name: str, module: nn.Module) -> RecordedLayer:
    assert isinstance(module, Mamba2Recurrence)
    return RecordedLayer(
        name=name, recurrence="mamba2", variant=Mamba2Variant(gated=True),
        dims={n: getattr(module, n) for n in ("heads", "head_dim", "state_dim", "groups")},
        parameters={"decay": _fp32(module.decay), "dt_bias": _fp32(module.dt_bias), "D": _fp32(module.D)},
    )


def _delta(name: str, module: nn.Module) -> RecordedLayer:
    assert isinstance(module, GatedDeltaRecurrence)
    return RecordedLayer(
        name=name, recurrence="gdn", variant=None,
        dims={n: getattr(module, n) for n in ("heads", "value_heads", "key_dim", "value_dim")},
        parameters={"A_log": _fp32(module.A_log), "dt_bias": _fp32(module.dt_bias)},
    )


# -- transformers: the recurrence is one of two functions of the module that defines the mixer; which mixer calls is noted on its way in


def _mixer(name: str, module: nn.Module) -> RecordedLayer:
    mixer: Any = module
    return RecordedLayer(
        name=name, recurrence="mamba2", variant=Mamba2Variant(),
        dims={"heads": mixer.num_heads, "head_dim": mixer.head_dim, "state_dim": mixer.ssm_state_size, "groups": mixer.n_groups},
        parameters={"decay": _fp32(-mixer.A_log.float().exp()), "dt_bias": _fp32(mixer.dt_bias), "D": _fp32(mixer.D)},
    )


@contextmanager
def _watching_mixers(hooks: list[Hook], mixers: dict[int, int], seen: Callable[[int, Call], None]) -> Iterator[None]:
    """The step's gate is outside of the recurrence, its dt is that of the raw projection, expanded over the head dim."""
    home: Any = importlib.import_module(_TRANSFORMERS)
    names = ("mamba2_selective_state_update", "mamba2_chunk_scan")
    missing = [name for name in names if not hasattr(home, name)]
    if missing:
        raise UsageError(f"transformers {_version()} has no {_TRANSFORMERS}.{missing[0]}: releases that have it, as 5.25, are recorded")
    inside: list[int] = []
    step, scan = (getattr(home, name) for name in names)

    def one(state: Tensor, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, *more: Any, **named: Any) -> Any:
        if inside:
            seen(inside[-1], Call(state, {"x": x[:, None], "dt": dt[:, None, :, 0], "B": B[:, None], "C": C[:, None]}))
        return step(state, x, dt, A, B, C, *more, **named)

    def many(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, *more: Any, **named: Any) -> Any:
        if inside:
            seen(inside[-1], Call(named.get("initial_states"), {"x": x, "dt": dt, "B": B, "C": C}))
        return scan(x, dt, A, B, C, *more, **named)

    with ExitStack() as stack:
        for hook in hooks:
            if id(hook.module) in mixers:
                stack.callback(hook.module.register_forward_pre_hook(lambda m, given: inside.append(mixers[id(m)])).remove)
                stack.callback(hook.module.register_forward_hook(lambda *given: inside.clear(), always_call=True).remove)
        for name, wrapped, plain in zip(names, (one, many), (step, scan), strict=True):
            setattr(home, name, wrapped)
            stack.callback(setattr, home, name, plain)
        yield


def _version() -> str:
    return str(getattr(importlib.import_module("transformers"), "__version__", "of unknown version"))


def _fp32(value: Tensor) -> Tensor:
    return value.detach().float().cpu().clone()


_LAYERS: dict[str, Callable[[str, nn.Module], RecordedLayer]] = {
    "Mamba2Recurrence": _mamba2, "GatedDeltaRecurrence": _delta, "Mamba2Mixer": _mixer,
}

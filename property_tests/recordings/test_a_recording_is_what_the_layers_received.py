"""Recordings: the bits that a recurrence received, the state it started from, and no more of either than was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from replaycheck.contract.errors import UsageError
from replaycheck.record.hooks import Call, hooks_of, watching
from replaycheck.record.models import decoded, opened_model
from replaycheck.record.recorder import Sampling, record
from replaycheck.trained.model import HybridModel, Sizes
from replaycheck_reference.layer import Mamba2Tokens
from replaycheck_reference.recurrences.batched.mamba2 import decompose

SIZES = Sizes(width=16, layers=("mamba2", "gdn", "mamba2"), heads=4, head_dim=8, state_dim=8, dim=8)
#: Bytes of a start state and of a token, of one request in all layers of SIZES.
STATE, TOKEN = 4 * (2 * 256 + 256), 4 * (2 * (64 + 4 + 32) + 32 + 32 + 8)


@pytest.fixture
def model() -> HybridModel:
    torch.manual_seed(1)
    return HybridModel(SIZES).requires_grad_(False)


def run(model: HybridModel, prefill: int, steps: int, *, requests: int = 2) -> Iterator[list[torch.Tensor]]:
    """Prefill and decode random bytes; yields the states of all layers after every call."""
    text = torch.randint(256, (requests, prefill + steps), generator=torch.Generator().manual_seed(2))
    caches = model.empty(requests)
    for part in ([text[:, :prefill]] if prefill else []) + [text[:, i:i + 1] for i in range(prefill, prefill + steps)]:
        caches = model(part, caches)[1]
        yield [cache.state for cache in caches]


def test_tokens_and_start_are_the_bits_that_the_recurrence_received(model: HybridModel) -> None:
    calls: list[tuple[int, Call]] = []
    with watching(hooks_of(model), lambda number, call: calls.append((number, call))), record(model, Sampling(tokens=5)) as recorder:
        states = list(run(model, 9, 7))
    recording = recorder.recording()
    assert [layer.recurrence for layer in recording.layers] == ["mamba2", "gdn", "mamba2"] and recording.stretches == 2
    for i, layer in enumerate(recording.layers):
        steps = [call for number, call in calls if number == i and call.length == 1]
        for request in range(2):
            start = layer.starts[request]
            assert start is not None and torch.equal(start, states[0][i][request])      # the final state of the chunked prefill
            for name, value in layer.stretches[request].items():
                assert torch.equal(value, torch.stack([step.tokens[name][request, 0] for step in steps[:5]]))


def test_a_recorded_stretch_takes_the_state_where_the_model_took_it(model: HybridModel) -> None:
    with record(model, Sampling(tokens=6)) as recorder:
        states = list(run(model, 40, 6))
    for i, layer in enumerate(recorder.recording().layers):
        if layer.recurrence == "mamba2":
            for request, (start, tokens) in enumerate(zip(layer.starts, layer.stretches, strict=True)):
                assert start is not None
                exact = decompose(layer.layer(), start, Mamba2Tokens(**tokens)).end()
                torch.testing.assert_close(states[-1][i][request].double(), exact, rtol=0, atol=2e-6 * float(exact.abs().max()))


def test_the_prefill_hands_over_the_state_of_the_exact_recurrence(model: HybridModel) -> None:
    calls: list[Call] = []
    with watching(hooks_of(model)[:1], lambda number, call: calls.append(call)), record(model, Sampling(tokens=1, layers=(0,))) as recorder:
        list(run(model, 70, 1, requests=1))
    layer = recorder.recording().layers[0]
    assert calls[0].length == 70 and layer.starts[0] is not None
    prefill = Mamba2Tokens(**{name: value[0] for name, value in calls[0].tokens.items()})
    exact = decompose(layer.layer(), torch.zeros_like(layer.starts[0]), prefill).end()
    torch.testing.assert_close(layer.starts[0].double(), exact, rtol=0, atol=5e-6 * float(exact.abs().max()))


def test_layers_steps_and_stretches_are_sampled_as_asked(model: HybridModel) -> None:
    with record(model, Sampling(layers=(2,), tokens=3, first=2, stretches=2, every=4)) as recorder:
        states = list(run(model, 5, 12))
    recording = recorder.recording()
    assert [layer.name for layer in recording.layers] == ["layers.2.recurrence"] and (recording.stretches, recording.tokens) == (4, 3)
    found = [start for start in recording.layers[0].starts if start is not None]
    wanted = [states[after][2][request] for after in (2, 6) for request in range(2)]
    assert len(found) == 4 and all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_request_without_a_prefill_starts_from_zero(model: HybridModel) -> None:
    with record(model, Sampling(tokens=2)) as recorder:
        list(run(model, 0, 2))
    assert all(start is None for layer in recorder.recording().layers for start in layer.starts)


@pytest.mark.parametrize(("budget", "stretches", "tokens"), [
    (4 * (STATE + 4 * TOKEN), 4, 4), (4 * (STATE + 4 * TOKEN) - 1, 2, 4), (2 * (STATE + 3 * TOKEN), 2, 3),
])
def test_a_recording_keeps_to_its_budget(model: HybridModel, budget: int, stretches: int, tokens: int) -> None:
    with record(model, Sampling(tokens=4, stretches=2, every=4, budget=budget)) as recorder:
        list(run(model, 3, 8))
    recording = recorder.recording()
    assert (recording.stretches, recording.tokens) == (stretches, tokens)


def test_what_cannot_be_recorded_is_one_line(model: HybridModel) -> None:
    with pytest.raises(UsageError, match="budget of 10 bytes"), record(model, Sampling(budget=10)):
        list(run(model, 3, 1))
    with record(model, Sampling(tokens=8)) as recorder:
        list(run(model, 3, 5))
    with pytest.raises(UsageError, match="nothing was recorded: .*5 tokens"):
        recorder.recording()
    with pytest.raises(UsageError, match="layer 3 is not there"), record(model, Sampling(layers=(3,))):
        pass
    with pytest.raises(UsageError, match="model Linear has no recurrent layer"), record(torch.nn.Linear(2, 2)):
        pass
    for wrong in ({"tokens": 0}, {"every": 2, "tokens": 3}, {"layers": (1, 1)}, {"layers": ()}, {"budget": 0}):
        with pytest.raises(ValueError, match="must be"):
            Sampling(**wrong)       # type: ignore[arg-type]


def test_nothing_of_the_model_is_changed_by_a_recording(model: HybridModel) -> None:
    plain = list(run(model, 5, 3))
    with record(model, Sampling(tokens=2)):
        recorded = list(run(model, 5, 3))
    assert all(torch.equal(a, b) for x, y in zip(plain, recorded, strict=True) for a, b in zip(x, y, strict=True))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_mamba2_of_transformers_is_recorded_as_it_is_decoded() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed: its hooks are not tested")
    from transformers.models.mamba2 import modeling_mamba2 as home

    before = (home.mamba2_selective_state_update, home.mamba2_chunk_scan)
    opened = opened_model("mamba2-random", seed=3)
    caches = []

    def run(tokens: torch.Tensor, cache: object) -> object:
        kept = opened.run(tokens, cache)
        caches.append(kept.layers[1].recurrent_states[0].clone())
        return kept

    recording = decoded(type(opened)(opened.module, opened.source, opened.tokens_of, run), Sampling(tokens=6), prefill=50)
    assert (home.mamba2_selective_state_update, home.mamba2_chunk_scan) == before
    assert (recording.stretches, recording.tokens, len(recording.of("mamba2"))) == (2, 6, 2)
    layer = recording.layers[1]
    for request, (start, tokens) in enumerate(zip(layer.starts, layer.stretches, strict=True)):
        assert start is not None and torch.equal(start, caches[0][request])
        exact = decompose(layer.layer(), start, Mamba2Tokens(**tokens)).end()
        torch.testing.assert_close(caches[-1][request].double(), exact, rtol=0, atol=2e-6 * float(exact.abs().max()))


def saved_model(where: Path) -> Path:
    """A directory as transformers writes it: a small random Mamba-2 and a tokenizer of the letters."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: directories are not opened")
    tokenizers = pytest.importorskip("tokenizers")
    opened_model("mamba2-random").module.save_pretrained(where)     # type: ignore[operator]
    letters = {chr(i): i for i in range(32, 127)} | {"\n": 0}
    whole = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, unk_token=" "))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=whole, unk_token=" ").save_pretrained(where)
    return where


def test_a_directory_of_transformers_is_opened_and_decoded(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a line of text\n" * 8)
    opened = opened_model(str(saved_model(tmp_path / "model")))
    assert opened.tokens_of("ab\n").tolist() == [97, 98, 0]
    recording = decoded(opened, Sampling(tokens=4), prefill=8, text=text)
    assert (len(recording.of("mamba2")), recording.stretches, recording.tokens) == (2, 2, 4)
    assert "Mamba-2 model model" in recording.source


def test_a_directory_that_lacks_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    whole = saved_model(tmp_path / "model")
    for missing in ("config.json", "model.safetensors", "tokenizer.json"):
        kept = (whole / missing).read_bytes()
        (whole / missing).unlink()
        with pytest.raises(UsageError, match=r"^model .* cannot be opened: [^\n]+$"):
            opened_model(str(whole))
        (whole / missing).write_bytes(kept)


def test_a_directory_of_another_model_or_with_part_of_the_weights_is_refused(tmp_path: Path) -> None:
    home = saved_model(tmp_path / "model")
    config = (home / "config.json").read_text()
    (home / "config.json").write_text(config.replace('"mamba2"', '"mamba"'))
    with pytest.raises(UsageError, match=r"config.json names model_type 'mamba', not 'mamba2'"):
        opened_model(str(home))
    (home / "config.json").write_text(config)
    weights = load_file(home / "model.safetensors")
    del weights["backbone.layers.1.mixer.dt_bias"]
    save_file(weights, home / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UsageError, match=r"its weights lack backbone\.layers\.1\.mixer\.dt_bias"):
        opened_model(str(home))

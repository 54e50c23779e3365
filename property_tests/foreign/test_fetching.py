"""A published file is taken only as pinned, and loaded without leaving a trace of its framework."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from replaycheck.adapters.foreign.alone import load_alone
from replaycheck.adapters.foreign.published import SELECTIVE_STATE_UPDATE, Published, Unavailable


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> Published:
    """A wheel of one file in place of the download."""

    def download(self: Published, folder: str) -> None:
        with zipfile.ZipFile(Path(folder) / "made_up-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("made_up/kernel.py", "VALUE = 7\n")

    monkeypatch.setattr(Published, "_download", download)
    sha256 = hashlib.sha256(b"VALUE = 7\n").hexdigest()
    return replace(SELECTIVE_STATE_UPDATE, distribution="made_up", version="1.0", member="made_up/kernel.py", sha256=sha256)


def test_a_file_is_fetched_once_and_kept(pinned: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pinned.fetch()
    assert first.read_text() == "VALUE = 7\n"

    def no_second(self: Published, folder: str) -> None:
        raise AssertionError("fetched again")

    monkeypatch.setattr(Published, "_download", no_second)
    assert pinned.fetch() == first


def test_a_kept_file_that_was_changed_is_fetched_again(pinned: Published) -> None:
    kept = pinned.fetch()
    kept.write_text("VALUE = 8\n")
    assert pinned.fetch().read_text() == "VALUE = 7\n"


def test_a_file_of_another_digest_is_refused_and_not_kept(pinned: Published, empty_cache: Path) -> None:
    with pytest.raises(Unavailable, match="made_up/kernel.py has sha256 .*, pinned is 000"):
        replace(pinned, sha256="0" * 64).fetch()
    assert not list(empty_cache.rglob("*.py"))


def test_a_wheel_without_the_file_is_named(pinned: Published) -> None:
    with pytest.raises(Unavailable, match="made_up 1.0: the wheel holds no made_up/other.py"):
        replace(pinned, member="made_up/other.py").fetch()


def test_a_package_that_cannot_be_fetched_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(Unavailable, match="sglang 0.5.23 cannot be fetched: ") as caught:
        SELECTIVE_STATE_UPDATE.fetch()
    assert "\n" not in str(caught.value)


def test_stubs_stand_in_during_the_load_only(tmp_path: Path) -> None:
    source = tmp_path / "part.py"
    source.write_text("from made_up_framework.deep.place import answer\nGOT = answer()\n")
    module = load_alone(source, "made_up_part", {"made_up_framework.deep.place": {"answer": lambda: 42}})
    assert module.GOT == 42
    assert not [name for name in sys.modules if name.startswith("made_up_framework")]


def test_a_module_that_is_neither_stubbed_nor_there_is_named(tmp_path: Path) -> None:
    source = tmp_path / "part.py"
    source.write_text("import made_up_framework.other\n")
    with pytest.raises(ImportError, match="made_up_framework.other"):
        load_alone(source, "made_up_part", {"made_up_framework.deep": {}})

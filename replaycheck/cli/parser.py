"""The command line as argparse sees it."""

from __future__ import annotations

import argparse
import keyword
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from replaycheck import __version__
from replaycheck.contract.errors import UsageError

from .drift_options import add_drift

__all__ = ["FORMS", "LISTS", "parse"]

FORMS = ("html", "md", "junit", "card")
#: Names of modules that a kernel file beside its tests would hide.
_TAKEN = frozenset(sys.stdlib_module_names) | {"torch", "triton", "numpy", "pytest", "replaycheck", "conftest"}

LISTS = ("kernels", "recurrences", "layers", "regimes", "checks", "suites")

_KERNEL_HELP = "path/to/file.py:object, module:object, or the name of an installed kernel"
_EXITS = """exit codes: 0 pass, 1 fail, 2 usage, 3 not proven, 4 error (the kernel raised, crashed, hung or broke the contract),
130 interrupted. Over several kernels the worst one counts."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like everything else here."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _positive_seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, got {text!r}")
    return value


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"must name a check, a guarantee or a regime, got {text!r}")
    return names


def _directory(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError(f"must name a directory, got {text!r}")
    return Path(text)


def _device(text: str) -> str:
    if text != "cpu" and text.partition(":")[0] != "cuda":
        raise argparse.ArgumentTypeError(f"must be cpu, cuda or cuda:N, got {text!r}")
    return text


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return int(text)


def _identifier(text: str) -> str:
    if not (text.isidentifier() and text.isascii()) or keyword.iskeyword(text) or text.startswith("_"):
        raise argparse.ArgumentTypeError(f"must be a name that Python can import, got {text!r}")
    if text in _TAKEN:
        raise argparse.ArgumentTypeError(f"would hide the module {text!r}; take another")
    return text


def _writing(command: argparse.ArgumentParser, out: Path | None, said: str) -> None:
    command.add_argument("--out", type=_directory, default=out, help=said)
    command.add_argument("--traceback", action="store_true", help="show the full traceback of what went wrong")


def _common() -> _Parser:
    common = _Parser(add_help=False)
    common.add_argument("--only", type=_names, action="extend", default=[], metavar="NAME[,NAME]",
                        help="only these checks, guarantees or regimes")
    common.add_argument("--out", type=_directory, default=Path("replaycheck-report"), help="directory of the report (default: %(default)s)")
    common.add_argument("--strict", action="store_true", help="a suspicious pass is a failure")
    common.add_argument("--traceback", action="store_true", help="show the full traceback of what went wrong")
    return common


def _playing() -> _Parser:
    playing = _Parser(add_help=False)
    playing.add_argument("--device", type=_device, default="cpu", help="cpu (Triton interpreter) or cuda (default: %(default)s)")
    return playing


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_whole(part.strip()) for part in text.split(","))


def _count(text: str) -> int:
    if not _whole(text):
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return _whole(text)


def _add_record(record: argparse.ArgumentParser) -> None:
    record.add_argument("model", metavar="MODEL", help="trained (the model trained here), mamba2-random, or the directory of a "
                        "transformers Mamba-2 model with its tokenizer")
    record.add_argument("out", type=Path, metavar="OUT", help="the safetensors file to write")
    record.add_argument("--text", type=Path, metavar="FILE", help="what the model reads (default: docstrings of Python)")
    record.add_argument("--requests", type=_count, default=2, help="requests side by side (default: %(default)s)")
    record.add_argument("--prefill", type=_whole, default=64, help="tokens of the chunked prefill (default: %(default)s)")
    record.add_argument("--tokens", type=_count, default=32, help="tokens of a stretch (default: %(default)s)")
    record.add_argument("--first", type=_whole, default=0, help="decode step at which the first stretch begins (default: %(default)s)")
    record.add_argument("--stretches", type=_count, default=1, help="stretches of every request (default: %(default)s)")
    record.add_argument("--every", type=_count, help="decode steps from one stretch to the next (default: one right after another)")
    record.add_argument("--layers", type=_numbers, metavar="N[,N]", help="which recurrent layers, counted from 0 (default: all)")
    record.add_argument("--budget", type=_count, default=2_000_000, metavar="BYTES", help="of the tensors (default: %(default)s)")
    record.add_argument("--seed", type=_whole, default=0, help="of the random model (default: %(default)s)")
    record.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The parsed arguments. Raises UsageError naming the argument and the value; --help and --version exit."""
    parser = _Parser(prog="replaycheck", description="Judge recurrent-state decode kernels against the exact recurrence.", epilog=_EXITS)
    parser.add_argument("--version", action="version", version=f"replaycheck {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    common, playing = _common(), _playing()

    validate = commands.add_parser("validate", parents=[common, playing], help="run a suite on kernels", epilog=_EXITS)
    validate.add_argument("kernels", nargs="+", metavar="KERNEL", help=_KERNEL_HELP)
    validate.add_argument("--suite", help="quick, merge or deep (default: quick)")
    validate.add_argument("--recording", metavar="FILE", help="play this recording instead of a suite: a safetensors file, or trained-here")
    validate.add_argument("--budget", type=_positive_seconds, metavar="SECONDS", help="start no new case after that many seconds a kernel")
    validate.add_argument("--seed", type=int, default=0, help="which cases are drawn (default: %(default)s)")

    replay = commands.add_parser("replay", parents=[common, playing], help="play one saved case again, bit for bit")
    replay.add_argument("case", type=Path, metavar="CASE.json")
    replay.add_argument("--kernel", required=True, help=_KERNEL_HELP)

    judge = commands.add_parser("judge", parents=[common], help="judge the windows of a trace, without a kernel")
    judge.add_argument("trace", type=Path, metavar="TRACE", help="a safetensors file of windows")

    drawn = commands.add_parser("report", help="draw a saved report again", description="draw a saved report again, in every form")
    drawn.add_argument("run", type=Path, metavar="RUN.json", help="the JSON document of a run")
    drawn.add_argument("--format", dest="form", choices=FORMS, help="this form alone")
    drawn.add_argument("--out", type=_directory, help="directory of the files (default: that of RUN.json)")
    drawn.add_argument("--traceback", action="store_true", help="show the full traceback of what went wrong")

    infer = commands.add_parser("infer", parents=[playing], help="find the smallest policy that explains a kernel, as claims to review")
    infer.add_argument("kernel", metavar="KERNEL", help=f"{_KERNEL_HELP}; all of its claims but the policy are believed")
    infer.add_argument("--seed", type=_seed, default=0, help="which cases are drawn (default: %(default)s)")
    _writing(infer, Path("replaycheck-report"), "directory of the claims file (default: %(default)s)")

    init = commands.add_parser("init", help="write an adapter, claims, tests and CI for a new kernel, and judge it once")
    init.add_argument("name", metavar="NAME", type=_identifier, help="of the kernel, and of its file: letters, digits and underscores")
    init.add_argument("--kind", choices=("step", "replay"), default="step", help="which adapter (default: %(default)s)")
    _writing(init, None, "directory to write (default: NAME)")

    _add_record(commands.add_parser("record", help="record what the recurrent layers of a model receive"))

    add_drift(commands.add_parser("drift", help="what storing a state in few bits costs over many tokens"), count=_count, device=_device)

    shown = commands.add_parser("list", help="what there is to name", description="what there is to name")
    shown.add_argument("what", choices=LISTS)
    shown.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)

"""Fetch the published kernel and say where it lies, or in one line why not (exit 1)."""

import sys

from .published import SELECTIVE_STATE_UPDATE, Unavailable


def main() -> int:
    try:
        path = SELECTIVE_STATE_UPDATE.fetch()
    except Unavailable as error:
        print(f"published kernel not judged: {error}")
        return 1
    print(f"published kernel: {SELECTIVE_STATE_UPDATE.distribution} {SELECTIVE_STATE_UPDATE.version}, {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

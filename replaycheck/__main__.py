"""`python -m replaycheck`."""

from replaycheck.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m autotune``: the command line of a checkout that is not installed."""

from __future__ import annotations

from .cli.main import main

if __name__ == "__main__":
    main()

"""A process of the pipeline that starts only once its gate is open: `python -m support.gated_process GATE COMMAND...`.

The gate is a file that must not exist. So a test can keep a stage down that a supervisor wants up.
"""

from __future__ import annotations

import os
import sys
import time


def main() -> None:
    gate, *command = sys.argv[1:]
    while os.path.exists(gate):  # noqa: PTH110 - pathlib would take as long to load as all the rest
        time.sleep(0.05)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()

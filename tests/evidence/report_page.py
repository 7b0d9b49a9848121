"""The page of reports over two weeks of a shop's calls, in light and dark, as a browser shows it: build/screens/report-*.png."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "services"), str(ROOT / "tests")]

from fourgates.audit.page import page  # noqa: E402 - the paths come first
from fourgates.audit.tables import REPORTS  # noqa: E402
from support.auditing import engine_in  # noqa: E402
from support.busy_days import busy_days  # noqa: E402

SCREENS = ROOT / "build" / "screens"
_CALLS = 1_500
_SIZES = {"report-light": (1280, 3_650, ()), "report-dark": (1280, 3_650, ("--blink-settings=preferredColorScheme=0",)),
          "report-phone": (420, 2_400, ())}  # fmt: skip


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no chromium: `make system` brings it")
    SCREENS.mkdir(parents=True, exist_ok=True)
    tape = busy_days(_CALLS)
    with tempfile.TemporaryDirectory() as folder, engine_in(Path(folder)) as engine:
        engine.take(tape.received)
        (SCREENS / "report.html").write_text(page(engine.store.query, list(REPORTS), None, 0, tape.now_ms), encoding="utf-8")
    for name, (wide, high, more) in _SIZES.items():
        picture = SCREENS / f"{name}.png"
        subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={wide},{high}",
             f"--screenshot={picture}", *more, (SCREENS / "report.html").as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        print(picture.relative_to(ROOT))


if __name__ == "__main__":
    main()

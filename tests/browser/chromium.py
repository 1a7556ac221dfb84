"""A Chromium to test with: the system's own or Playwright's; where there is neither, one is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """Return the path of a browser; one is installed only if there is neither the system's nor Playwright's own."""
    if found := _installed():
        return found
    if _has_playwrights():
        return None
    print("No Chromium was found: installing one for the browser tests.", file=sys.__stderr__, flush=True)
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, stdout=subprocess.DEVNULL)
        return _installed()
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
    return None


def _has_playwrights() -> bool:
    """Say whether Playwright has downloaded a browser of its own."""
    places = (os.environ.get("PLAYWRIGHT_BROWSERS_PATH"), "~/.cache/ms-playwright", "~/Library/Caches/ms-playwright")
    return any(any(Path(place).expanduser().glob("chromium*")) for place in places if place)


def _installed() -> str | None:
    for name in NAMES:
        if path := shutil.which(name):
            return path
    return str(MAC) if MAC.exists() else None

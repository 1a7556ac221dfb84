"""A real server and a real browser."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from core.runs.store import Store
from tests.browser.chromium import ARGUMENTS, find_chromium

ROOT = Path(__file__).parents[2]
expect.set_options(timeout=120_000)  # a busy machine draws a chart slowly, and that is no fault


@dataclass
class Server:
    """A running app with the folder its runs are in."""

    url: str
    store: Store
    process: subprocess.Popen[bytes]


def start_server(runs: Path) -> Server:
    """Start the app on a free port and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    environment = dict(os.environ, TOPICSCOPE_RUNS=str(runs))
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://localhost:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=1)
            return Server(url, Store(runs), process)
        except OSError:
            time.sleep(0.2)
    process.kill()
    raise AssertionError("the server never answered")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return one browser for all tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return one server for all tests."""
    server = start_server(tmp_path_factory.mktemp("runs"))
    yield server
    server.process.terminate()
    server.process.wait(30)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Return a new tab that fails the test if the page raised an error."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    yield page
    context.close()
    assert not faults, faults

"""Every test of a page has a server of its own."""

from collections.abc import Iterator

import pytest

from core.runs.store import Store
from pages.parts import services


@pytest.fixture(autouse=True)
def fresh_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give every test a server of its own with an empty run folder."""
    monkeypatch.setenv("TOPICSCOPE_RUNS", str(store.folder))
    services.worker.clear()
    yield
    services.worker().close()
    services.worker.clear()

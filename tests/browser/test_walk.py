"""A person walks from an upload to a labelled table; the same job on the command line gives the same labels."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.conftest import ROOT, Server, start_server
from tests.conftest import obvious_table

HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\"> **bold** $x^2$ [go](javascript:alert(1)) the rocket and the moon"
)
PATIENCE = 300_000  # a busy machine loads its libraries slowly


def table_file(folder: Path) -> Path:
    """Write a table with everything that could go wrong on the way: formulas, markup, blanks, taken names."""
    frame = obvious_table(10)
    frame["cluster"], frame["x"] = "mine", "5"
    frame.loc[1, "text"] = HOSTILE
    frame.loc[2, "text"] = "=SUM(A1) football, goal and team – café\nsecond line"
    frame.loc[3, "text"] = ""
    frame.loc[4, "x"] = "-7.5"
    path = folder / "tickets; new.csv"
    frame.to_csv(path, index=False, sep=";", encoding="cp1252")
    return path


def upload(page: Page, server: Server, path: Path) -> None:
    """Bring a file and wait until it is read."""
    page.goto(server.url)
    page.locator("input[type=file]").set_input_files(path)
    expect(page.get_by_text("rows will be used")).to_be_visible(timeout=PATIENCE)


def start(page: Page, method: str, clusters: int, preset: str = "", **advanced: int) -> None:
    """Choose a method and perhaps a preset, turn its knobs and start it."""
    page.get_by_role("button", name="Choose a method").first.click()
    page.get_by_role("button", name=method).click()
    expect(page.get_by_test_id("stBaseButton-primary").filter(has_text=method)).to_be_visible(timeout=PATIENCE)
    if preset:
        page.get_by_role("radio", name=preset).click()
        page.wait_for_timeout(3_000)
    folded = page.get_by_role("spinbutton", name="Batch", exact=True)
    while advanced and not folded.is_visible():  # the form may be drawn anew while it is unfolded
        page.get_by_text("Advanced", exact=True).first.click()
        page.wait_for_timeout(3_000)
    for label, value in {"Clusters": clusters, **advanced}.items():
        field = page.get_by_role("spinbutton", name=label, exact=True)
        field.fill(str(value))
        field.press("Enter")
    page.get_by_role("button", name="Start", exact=True).first.click()


def test_a_click_on_start_right_after_enter_is_never_lost(page: Page, server: Server, tmp_path: Path) -> None:
    """The page is being drawn anew, with the new number, when the button is pressed."""
    path = table_file(tmp_path)
    for clusters in (2, 3, 4):
        upload(page, server, path)
        page.get_by_role("button", name="Choose a method").first.click()
        page.get_by_role("button", name="TF-IDF").click()
        expect(page.get_by_test_id("stBaseButton-primary").filter(has_text="TF-IDF")).to_be_visible(timeout=PATIENCE)
        button = page.get_by_role("button", name="Start", exact=True).first
        button.scroll_into_view_if_needed()
        place, field = button.bounding_box(), page.get_by_role("spinbutton", name="Clusters", exact=True)
        assert place
        before = {run.id for run in server.store.runs()}
        field.fill(str(clusters))
        field.press("Enter")
        page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        expect(page).to_have_url(re.compile(r"run=\d{8}-\d{6}-tfidf-"), timeout=PATIENCE)
        started = [run for run in server.store.runs() if run.id not in before]
        assert [run.config.knobs["clusters"] for run in started] == [clusters], "one click, one run, as it was typed"


def read_rows(path: Path, encoding: str, separator: str) -> list[list[str]]:
    """Read a file with the standard library alone."""
    with path.open(encoding=encoding, newline="") as file:
        return list(csv.reader(file, delimiter=separator))


def download(page: Page, folder: Path, name: str, button: str = "Download") -> Path:
    """Press a download button and keep the file."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=button, exact=True).first.click()
    target = folder / name
    waiting.value.save_as(target)
    return target


def test_upload_run_explore_export(page: Page, server: Server, tmp_path: Path) -> None:
    path = table_file(tmp_path)
    upload(page, server, path)
    used = "29 of 30 rows will be used. Left out: 1 empty."
    for found in ("encoding cp1252", "separator semicolon", "rows 30", used):
        expect(page.get_by_text(found)).to_be_visible()
    start(page, "Language model", 3)
    expect(page).to_have_url(re.compile(r"run=\d{8}-\d{6}-embed-"), timeout=PATIENCE)
    page.reload()
    expect(page.get_by_text("Finished in")).to_be_visible(timeout=PATIENCE)

    page.get_by_role("link", name="Explore the clusters").click()
    expect(page.get_by_text("29 of 29 texts are drawn")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("Typical texts")).to_be_visible()
    page.get_by_role("radio", name="t-SNE").click()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.title() != "hacked"

    rows = read_rows(download(page, tmp_path, "cluster.csv", "Download these rows"), "utf-8-sig", ",")
    assert len(rows) > 3 and {row[-5] for row in rows[1:]} == {"0"}

    page.get_by_role("link", name="Export").click()
    expect(page.get_by_text("30 rows in their order")).to_be_visible(timeout=PATIENCE)
    before = read_rows(path, "cp1252", ";")
    guarded = read_rows(download(page, tmp_path, "guarded.csv"), "utf-8-sig", ",")
    page.get_by_text("Make safe for spreadsheets").click()
    page.wait_for_timeout(1_500)
    raw = read_rows(download(page, tmp_path, "raw.csv"), "utf-8", ",")
    added = ["cluster_2", "cluster_name", "probability", "x_2", "y"]
    assert raw[0] == before[0] + added and guarded[0] == raw[0]
    assert len(raw) == len(guarded) == len(before)
    for original, plain, safe in zip(before[1:], raw[1:], guarded[1:], strict=True):
        assert plain[: len(original)] == original, "switched off, every cell is equal"
        assert safe[: len(original)] == ["'" + cell if cell.startswith("=") else cell for cell in original]
    assert raw[4][-5:-3] == ["", "left out: empty"]
    assert all(0 < float(row[-3]) <= 1 for row in raw[1:] if row[-5])
    _repeat_on_the_command_line(server, path, raw)


def _repeat_on_the_command_line(server: Server, path: Path, raw: list[list[str]]) -> None:
    """Check that the same file and configuration give the same labels without a browser."""
    command = [sys.executable, "-m", "core", "run", str(path), "--text", "text", "--method", "embed"]
    out = path.with_name("cli.csv")
    done = subprocess.run(
        [*command, "--set", "clusters=3", "--runs", str(server.store.folder), "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row[-5:] for row in read_rows(out, "utf-8", ",")] == [row[-5:] for row in raw]
    assert json.loads(done.stdout.splitlines()[-1])["used"] == 29


def big_table(folder: Path) -> Path:
    """Write a table that takes a while."""
    path = folder / "long.csv"
    frame = obvious_table(1_500)
    frame["text"] = [f"{text} number {i} of a rather long story about it" for i, text in enumerate(frame["text"])]
    frame.to_csv(path, index=False)
    return path


def test_closing_the_tab_does_not_stop_a_run_and_another_tab_can(page: Page, server: Server, tmp_path: Path) -> None:
    upload(page, server, big_table(tmp_path))
    start(page, "Language model", 5)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible(timeout=PATIENCE)
    address = page.url
    other = page.context.new_page()
    page.goto("about:blank")
    other.goto(address)
    expect(other.get_by_text(re.compile("left here, .+ in all"))).to_be_visible(timeout=PATIENCE)
    other.get_by_role("link", name="Corpus").click()
    expect(other.get_by_text("Nothing leaves this machine")).to_be_visible()
    assert server.store.runs()[0].status() == "running", "the page answered while the run was at work"
    other.goto(address)
    other.get_by_role("button", name="Stop", exact=True).first.click()
    expect(other.get_by_text("The run was stopped")).to_be_visible(timeout=PATIENCE)
    expect(other.get_by_role("button", name="Resume").first).to_be_visible()


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_server_that_ends_in_mid_run_tells_the_truth_and_resumes(
    page: Page, tmp_path: Path, ending: signal.Signals
) -> None:
    server = start_server(tmp_path / "runs")
    try:
        upload(page, server, big_table(tmp_path))
        start(page, "Language model", 5)
        expect(page.get_by_text("at work").first).to_be_visible(timeout=PATIENCE)
        os.kill(server.process.pid, ending)
        assert server.process.wait(60) in (-signal.SIGKILL, 0, -signal.SIGINT, 130)
        run = server.store.runs()[0]
        assert run.status() == ("interrupted" if ending == signal.SIGKILL else "stopped")
        server = start_server(tmp_path / "runs")
        page.goto(f"{server.url}/train?run={run.id}")
        page.get_by_role("button", name="Resume").first.click(timeout=PATIENCE)
        expect(page.get_by_role("link", name="Corpus")).to_be_visible()
        expect(page.get_by_role("link", name="app", exact=True)).to_have_count(0)
        expect(page.get_by_text("at work").first).to_be_visible(timeout=PATIENCE)
        page.get_by_role("button", name="Stop", exact=True).first.click()
        expect(page.get_by_text("The run was stopped")).to_be_visible(timeout=PATIENCE)
    finally:
        server.process.terminate()
        server.process.wait(60)


@contextmanager
def another_browser(page: Page) -> Iterator[Page]:
    """Open a tab in a browser of its own, as another person would."""
    assert page.context.browser
    browser = page.context.browser.browser_type.launch(executable_path=find_chromium(), args=ARGUMENTS)
    yield browser.new_page()
    browser.close()


def part_of_the_sample(folder: Path) -> Path:
    """Write a fifth of the bundled sample: enough to see topics form, and drawn in a second."""
    lines = (ROOT / "assets" / "sample.csv").read_text("utf-8")
    rows = list(csv.reader(io.StringIO(lines)))
    path = folder / "sample.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([rows[0], *rows[1::5]])
    return path


def test_topics_form_before_your_eyes_stop_reload_resume_and_replay(page: Page, server: Server, tmp_path: Path) -> None:
    upload(page, server, part_of_the_sample(tmp_path))
    with another_browser(page) as other:
        other.goto(server.url)  # ready before there is something to see
        start(page, "Contrastive clustering", 12, "Quick look", Steps=75, Every=15, Batch=32)
        expect(page).to_have_url(re.compile(r"run=\d{8}-\d{6}-sccl-"), timeout=PATIENCE)
        other.goto(page.url)
        for watching in (page, other):
            expect(watching.get_by_text(re.compile(r"[3-9] pictures so far"))).to_be_visible(timeout=PATIENCE)
            expect(watching.locator(".js-plotly-plot").first).to_be_visible()
        run = server.store.runs()[0]
        page.get_by_role("button", name="Stop", exact=True).first.click()
        for watching in (page, other):
            expect(watching.get_by_text("The run was stopped")).to_be_visible(timeout=PATIENCE)
    page.reload()
    page.get_by_role("button", name="Resume").first.click(timeout=PATIENCE)
    expect(page.get_by_text("Finished in")).to_be_visible(timeout=PATIENCE)
    for _ in range(100):  # what was passed over while it trained is drawn after its end
        if not server.store.open(run.id).frames().missing():
            break
        page.wait_for_timeout(3_000)
    page.reload()
    expect(page.get_by_text(re.compile(rf"{len(server.store.open(run.id).snapshots())} pictures"))).to_be_visible()
    _drag_the_slider_back(page)
    assert download(page, tmp_path, "replay.html", "Take the replay away").stat().st_size > 1_000_000


def _drag_the_slider_back(page: Page) -> None:
    """Take the grip of the replay from its end to its beginning and see the picture change."""
    replay = page.locator(".js-plotly-plot").first
    replay.scroll_into_view_if_needed()
    shown = replay.locator(".slider-group > text.slider-label")  # what is seen now; those of the rail lie deeper
    expect(shown).to_have_text("The end")
    grip, rail = replay.locator(".slider-grip-rect").bounding_box(), replay.locator(".slider-rail-rect").bounding_box()
    assert grip and rail
    page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
    page.mouse.down()
    page.mouse.move(rail["x"] + 2, rail["y"] + 2, steps=8)
    page.mouse.up()
    expect(shown).to_have_text("Before train")

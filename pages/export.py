"""Take the labelled table away."""

from pathlib import Path

import pandas as pd
import streamlit as st

from core.errors import BadInput
from core.runs.labelling import Labelling
from core.runs.store import Run
from core.tables.corpus import NEW_COLUMNS
from core.tables.export import FORMATS, MIME, table_bytes
from pages.parts.services import begin_page, finished_run, plain

PREVIEW_ROWS = 100


def main() -> None:
    """Offer the table of the run being looked at, once it has finished."""
    begin_page("Export")
    run = finished_run(":material/download:")
    if run is None:
        return
    _offer(run)
    with st.expander("How this table came about", icon=":material/verified:"):
        st.code(run.settled_config().command(), language="bash", wrap_lines=True)
        st.json(run.settled_config().to_json(), expanded=1)


@st.cache_resource(max_entries=2, show_spinner="Putting the table together")
def _labelled(folder: str, made: int, corrected: int) -> pd.DataFrame:
    """Return a finished run's labelled table, as it was made and corrected at that time."""
    return Labelling.of(Run(Path(folder))).table()


def _offer(run: Run) -> None:
    """Let the person choose a format and download; the file is made when the button is pressed."""
    table = _labelled(str(run.folder), run.results.made_at(), run.ledger().stamp())
    added = ", ".join(str(name) for name in table.columns[-len(NEW_COLUMNS) :])
    st.caption(plain(f"{len(table):,} rows in their order, every column as it was read, and {added}."))
    file_format = st.segmented_control(
        "Format", FORMATS, default="csv", required=True, format_func=str.upper, key="format", persist_state="session"
    )
    guard = file_format not in ("parquet", "jsonl") and st.toggle(
        "Make safe for spreadsheets",
        value=True,
        key="guard",
        persist_state="session",
        help="A cell that Excel would run as a formula gets one leading apostrophe, and the CSV is marked as UTF-8. "
        "Switched off, every cell is exactly as it was read.",
    )
    file_format = file_format or "csv"

    def make() -> bytes:
        return table_bytes(table, file_format, guard=guard, bom=guard)

    name = f"{Path(run.config.file).stem}-{run.config.method}.{file_format}"
    if file_format == "xlsx":
        try:  # a workbook has limits: say so here rather than in a download that fails
            content = make()
        except BadInput as refusal:
            st.error(str(refusal))
            return
        st.download_button(
            "Download", content, name, MIME[file_format], type="primary", icon=":material/download:", on_click="ignore"
        )
    else:
        st.download_button(
            "Download", make, name, MIME[file_format], type="primary", icon=":material/download:", on_click="ignore"
        )
    names = [str(name) for name in table.columns]
    added_first = [*names[-len(NEW_COLUMNS) :], *names[: -len(NEW_COLUMNS)]]
    st.dataframe(table.head(PREVIEW_ROWS), hide_index=True, height=420, column_order=added_first)
    st.caption(
        f"The first {min(PREVIEW_ROWS, len(table)):,} of {len(table):,} rows; the new columns come first here, "
        "last in the file. x and y are the place on the UMAP map."
    )


main()

"""Bring a table: upload it or take the sample, choose columns, see what will be used and why rows are left out."""

import hashlib
from pathlib import Path
from typing import Any

import streamlit as st

from core.errors import BadInput
from core.tables import KINDS, Table, read_table
from core.tables.corpus import Corpus, guess_id, guess_label, guess_text, guess_time
from core.tables.dialect import LINE_ENDS, ONE_COLUMN, SEPARATORS
from core.tables.encoding import ENCODINGS
from pages.parts.services import begin_page, plain, start_afresh

SAMPLE = Path(__file__).parent.parent / "assets" / "sample.csv"
PREVIEW_ROWS = 200
_SHOWN = {
    ",": "comma",
    ";": "semicolon",
    "\t": "tab",
    "|": "pipe",
    '"': '"',
    "'": "'",
    "\n": "\\n (Unix)",
    "\r\n": "\\r\\n (Windows)",
    "\r": "\\r (old Mac)",
    True: "first row",
    False: "none",
}


def main() -> None:
    """Draw the page from top to bottom."""
    begin_page("Bring a table")
    st.caption("One row per text: tickets, complaints, survey answers, titles. Nothing leaves this machine.")
    _receive()
    if "data" not in st.session_state:
        return
    try:
        table = _read()
    except BadInput as refusal:
        st.error(str(refusal), icon=":material/error:")
        st.session_state.pop("corpus", None)
        _offer_undo()
        return
    _show_reading(table)
    corpus = _choose_columns(table)
    st.session_state["corpus"] = corpus
    _show_use(corpus)
    st.subheader("Preview")
    shown = min(PREVIEW_ROWS, len(table.frame))
    st.caption(f"The first {shown:,} of {len(table.frame):,} rows, {len(table.frame.columns):,} columns.")
    st.dataframe(table.frame.head(PREVIEW_ROWS), hide_index=True, height=380)


def _receive() -> None:
    """Take a file or the sample; a new file forgets all choices made for the one before."""
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    limit = st.get_option("server.maxUploadSize")
    upload = left.file_uploader(
        f"CSV, TSV, XLSX, Parquet or JSONL, up to {limit} MB",
        type=sorted(kind[1:] for kind in KINDS),
        key=f"upload-{st.session_state.get('samples', 0)}",
    )
    if right.button("Take the sample", icon=":material/science:", width="stretch", help="3,000 messages to a shop"):
        _open(SAMPLE.name, SAMPLE.read_bytes(), "")
        st.session_state["samples"] = st.session_state.get("samples", 0) + 1  # empties the uploader
        st.rerun()
    if upload is not None and upload.file_id != st.session_state.get("upload_id"):
        _open(upload.name, upload.getvalue(), upload.file_id)


def _open(name: str, data: bytes, upload_id: str) -> None:
    st.session_state.update(
        file=name, data=data, sha256=hashlib.sha256(data).hexdigest(), reading={}, widgets=_round() + 1
    )
    if upload_id:
        st.session_state["upload_id"] = upload_id
    for key in ("table", "corpus"):
        st.session_state.pop(key, None)


def _round() -> int:
    """Count the files opened, so that widgets of one file never remember another's choices."""
    return int(st.session_state.get("widgets", 0))


def _read() -> Table:
    """Read the file as found and corrected; done once per file and correction."""
    key = (st.session_state["sha256"], tuple(sorted(st.session_state["reading"].items())))
    if st.session_state.get("table", (None,))[0] != key:
        with st.spinner("Reading the table"):
            table = read_table(st.session_state["data"], st.session_state["file"], **st.session_state["reading"])
        st.session_state["table"] = (key, table)
    return st.session_state["table"][1]


def _show_reading(table: Table) -> None:
    """Say what was found and let the person correct it."""
    found: dict[str, Any] = {"rows": f"{len(table.frame):,}", "columns": f"{len(table.frame.columns):,}"}
    if table.dialect:
        found |= {
            "encoding": table.dialect.encoding,
            "separator": _SHOWN.get(table.dialect.separator, table.dialect.separator or "none: one column"),
            "quote": table.dialect.quote or "none",
            "line ends": _SHOWN[table.dialect.line_end],
        }
    if table.kind in ("csv", "xlsx"):
        found["header"] = _SHOWN[table.header]
    if table.sheet:
        found["sheet"] = table.sheet
    st.markdown(f"**{plain(st.session_state['file'])}**")
    with st.container(horizontal=True):
        for name, value in found.items():
            st.badge(f"{name} {plain(value)}", color="gray" if name not in st.session_state["reading"] else "primary")
    _offer_undo()
    if table.kind in ("csv", "xlsx"):
        with st.expander("Not right? Correct how the file is read", icon=":material/edit:", key="correct"):
            _correct(table)
    for note in table.notes:
        st.caption(f":material/info: {plain(note)}")


def _correct(table: Table) -> None:
    choices: dict[str, tuple[str, tuple[Any, ...], Any]] = {"header": ("Header", (True, False), table.header)}
    if table.dialect:
        found = table.dialect
        choices |= {
            "encoding": ("Encoding", ENCODINGS, found.encoding),
            "separator": ("Separator", (*SEPARATORS, ONE_COLUMN), found.separator),
            "quote": ("Quote character", ('"', "'", ""), found.quote),
            "line_end": ("Line ends", LINE_ENDS, found.line_end),
        }
    if table.sheet:
        choices["sheet"] = ("Sheet", table.sheets, table.sheet)
    row = st.container(horizontal=True)
    for name, (title, options, current) in choices.items():
        options = options if current in options else (current, *options)
        chosen = row.selectbox(
            title,
            options,
            options.index(current),
            format_func=lambda value: _SHOWN.get(value, value or "none"),
            key=f"read-{name}-{current!r}-{_round()}",
            width=170,
        )
        if chosen != current:
            st.session_state["reading"] = st.session_state["reading"] | {name: chosen}
            st.rerun()


def _offer_undo() -> None:
    """Let the person go back to what was found, if anything was corrected."""
    if st.session_state["reading"] and st.button("Undo the corrections", icon=":material/undo:"):
        st.session_state.update(reading={}, widgets=_round() + 1)
        st.rerun()


def _choose_columns(table: Table) -> Corpus:
    """Offer the columns' roles with a guess for each; duplicates stay unless the person says otherwise."""
    frame = table.frame
    names = [str(name) for name in frame.columns]
    suffix = f"{_round()}-{abs(hash(tuple(names)))}"
    text_column, label_column, time_column, id_column = st.columns(4)
    text = text_column.selectbox(
        "Text to cluster", names, names.index(guess_text(frame)), key=f"text-{suffix}", persist_state="session"
    )
    roles = {}
    for column, role, title, guess, help_text in (
        (label_column, "label", "True label", guess_label, "Only for measuring at the end; training never sees it."),
        (time_column, "time", "Time", guess_time, "When the text was written."),
        (id_column, "id", "Id", guess_id, "What names a row."),
    ):
        options = [None, *(name for name in names if name != text)]
        guessed = guess(frame, text)
        roles[role] = column.selectbox(
            title,
            options,
            options.index(guessed),
            format_func=lambda name: "(none)" if name is None else name,
            key=f"{role}-{suffix}-{text}",
            help=help_text,
            persist_state="session",
        )
    drop = st.toggle("Leave out exact duplicates", key=f"duplicates-{suffix}", persist_state="session")
    corpus = Corpus(frame, text, **roles, drop_duplicates=drop)
    known: Corpus | None = st.session_state.get("corpus")
    # The one already looked through is kept: a rerun must not read half a million rows again.
    same = known is not None and known.table is frame and known.roles == corpus.roles
    return known if known is not None and same else corpus


def _show_use(corpus: Corpus) -> None:
    """Say how many rows will be used, and why each of the others is not."""
    rows, used = len(corpus.table), len(corpus.used)
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in corpus.left_out.items())
    sentence = f"{used:,} of {rows:,} rows will be used." + (f" Left out: {left_out}." if left_out else "")
    (st.success if used else st.error)(sentence, icon=":material/fact_check:")
    if left_out:
        with st.expander("Rows that are left out"):
            outside = corpus.reasons[corpus.reasons != ""].head(1_000)
            view = corpus.table.iloc[outside.index].copy(deep=False)
            view.insert(0, "row", outside.index + 1, allow_duplicates=True)
            view.insert(1, "reason", outside.to_numpy(), allow_duplicates=True)
            view.columns = [f"{name}" if position < 2 else f"{name} " for position, name in enumerate(view.columns)]
            st.dataframe(view, hide_index=True)
            st.caption(f"{len(outside):,} of {rows - used:,} shown. They stay in the export with their reason.")
    if used and st.button("Choose a method", type="primary", icon=":material/arrow_forward:"):
        start_afresh()
        st.switch_page("pages/train.py")


main()

"""The map, the clusters, the documents, the topic words."""

from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from core.errors import BadInput
from core.runs.curation import LONGEST_NAME
from core.runs.labelling import Labelling
from core.runs.store import Run
from core.tables.export import table_bytes
from core.topics.describe import TOPIC_WORDS
from pages.parts.figures import Colouring, map_figure, words_figure
from pages.parts.services import begin_page, finished_run, plain

BY_CLUSTER = "(cluster)"
LAYOUTS = {"umap": "UMAP", "tsne": "t-SNE"}
MOST_SELECTED = 1_000
_METRICS = {
    "acc": (
        "ACC",
        "Accuracy: share of rows right under the best one-to-one matching of clusters and labels (Hungarian).",
    ),
    "nmi": ("NMI", "Normalised mutual information with the labels, arithmetic mean."),
    "nmi_geometric": ("NMI (geo.)", "The same with the geometric mean, as some papers report it."),
    "ari": ("ARI", "Adjusted Rand index: agreement on pairs of rows, 0 by chance."),
    "purity": (
        "Purity",
        "Share of rows that have their cluster's most common label; grows with the number of clusters.",
    ),
}


def main() -> None:
    """Show the run being looked at, if it has something to show."""
    begin_page("Explore")
    run = finished_run(":material/scatter_plot:")
    if run is None:
        return
    labelling = _load(str(run.folder), run.results.made_at(), run.ledger().stamp())
    _show_metrics(run, labelling)
    _show_map(run, labelling)
    _show_clusters(run, labelling)


@st.cache_resource(max_entries=3, show_spinner=False)
def _load(folder: str, made: int, corrected: int) -> Labelling:
    """Open a finished run's table and its results, as they were made and corrected at that time."""
    return Labelling.of(Run(Path(folder)))


def _show_metrics(run: Run, labelling: Labelling) -> None:
    metrics, corpus = run.results.metrics(), labelling.corpus
    none = int((labelling.labels < 0).sum())
    apart = f", {none:,} of them in no cluster" if none else ""
    st.caption(f"{len(corpus.used):,} texts of {len(corpus.table):,} rows in {labelling.filled:,} clusters{apart}.")
    score = metrics["silhouette"]
    about = (
        f"How much nearer rows are to their own cluster than to the next, over {metrics['silhouette_sample']:,} rows."
    )
    shown = [("Silhouette", "–" if score is None else f"{score:.3f}", about)]
    shown += [(title, f"{100 * metrics[key]:.1f} %", help) for key, (title, help) in _METRICS.items() if key in metrics]
    with st.container(horizontal=True, gap="xsmall"):
        for title, value, help_text in shown:
            st.metric(title, value, help=help_text or None, border=True, width="content")


def _show_map(run: Run, labelling: Labelling) -> None:
    """Draw the map; the points a person selects are listed below it with all their columns."""
    corpus = labelling.corpus
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    layout = left.segmented_control(
        "Map",
        list(LAYOUTS),
        default="umap",
        required=True,
        format_func=LAYOUTS.__getitem__,
        key="layout",
        persist_state="session",
    )
    columns = [BY_CLUSTER, *(str(name) for name in corpus.table.columns if name != corpus.text)]
    by = right.selectbox("Colour by", columns, key=f"colour-{run.id}", persist_state="session")
    sample, points = run.results.map(layout or "umap")
    rows = corpus.used[sample]
    if by == BY_CLUSTER:
        colour = Colouring.by_cluster(labelling.labels[sample], labelling.names)
    else:
        colour = Colouring.by_column(corpus.table[by].iloc[rows].reset_index(drop=True))
    figure = map_figure(np.asarray(points[sample]), rows, colour)
    chosen = st.plotly_chart(
        figure,
        key=f"map-{run.id}-{layout}-{by}",
        on_select="rerun",
        selection_mode=("points", "box", "lasso"),
        config={"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["toImage"]},
    )
    st.caption(
        f"{len(sample):,} of {len(corpus.used):,} texts are drawn. "
        "Click a point or draw a box around some to read them below; scroll to zoom."
    )
    positions = [_row(point["customdata"]) for point in chosen["selection"]["points"] if "customdata" in point]
    if positions:
        table = labelling.view().iloc[sorted(set(positions))]
        st.markdown(
            f"**{len(table):,} selected**"
            + ("" if len(table) <= MOST_SELECTED else f", the first {MOST_SELECTED:,} shown")
        )
        st.dataframe(table.head(MOST_SELECTED), hide_index=True, height=min(400, 38 + 35 * len(table)))


def _row(customdata: object) -> int:
    return int(customdata[0] if isinstance(customdata, list | tuple) else customdata)  # type: ignore[call-overload]


def _show_clusters(run: Run, labelling: Labelling) -> None:
    """List the clusters; the selected one is shown in full."""
    st.subheader("Clusters", anchor=False)
    st.caption("Mark a row to read its texts below.")
    topics, used = labelling.topics, max(len(labelling.corpus.used), 1)
    listing = pd.DataFrame(
        {
            "cluster": range(len(topics)),
            "name": labelling.names,
            "texts": [topic.size for topic in topics],
            "share": [100 * topic.size / used for topic in topics],
            "topic words": [", ".join(topic.words[:TOPIC_WORDS]) for topic in topics],
        }
    )
    chosen = st.dataframe(
        listing,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row-required",
        key=f"clusters-{run.id}",
        selection_default={"selection": {"rows": [0]}},
        height=min(460, 38 + 35 * len(topics)),
        column_config={
            "cluster": st.column_config.NumberColumn(width="small"),
            "texts": st.column_config.NumberColumn(format="localized", width="small"),
            "share": st.column_config.ProgressColumn(
                format="%.1f %%", max_value=max(*listing["share"], 1), width="small"
            ),
            "topic words": st.column_config.TextColumn(width="large"),
        },
    )
    rows = chosen["selection"]["rows"] or [0]
    _show_cluster(run, labelling, int(listing["cluster"].iloc[rows[0]]))


def _show_cluster(run: Run, labelling: Labelling, label: int) -> None:
    topic, corpus = labelling.topics[label], labelling.corpus
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(f"{label}: {plain(topic.name)}", anchor=False)
        _draw_corrections(run, labelling, label)
    left, right = st.columns([1, 2], gap="large")
    with left:
        st.markdown("**Topic words**")
        if topic.words:
            st.plotly_chart(
                words_figure(topic.words[:TOPIC_WORDS], topic.weights[:TOPIC_WORDS], label),
                key=f"words-{run.id}-{label}",
                config={"displayModeBar": False},
            )
        else:
            st.caption("No word sets this cluster apart.")
    with right:
        st.markdown("**Typical texts**")
        for row in topic.typical:
            with st.container(border=True):
                st.text(corpus.texts[row])
    rows = labelling.rows_of(label)
    view = labelling.view().iloc[rows]
    probability = str(view.columns[1])
    view = view.sort_values(probability, ascending=False, kind="stable")
    st.markdown(f"**All {len(view):,} rows**, the surest first, with all their columns")
    others = [str(column) for column in corpus.table.columns if column != corpus.text]
    st.dataframe(view, hide_index=True, height=420, column_order=[probability, corpus.text, *others])
    st.download_button(
        "Download these rows",
        lambda: table_bytes(labelling.table().iloc[rows], "csv", bom=True),
        f"cluster-{label}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"download-{run.id}-{label}",
    )


def _draw_corrections(run: Run, labelling: Labelling, label: int) -> None:
    """Let the person name the cluster and strike words; nothing is trained again, and everything can be undone."""
    ledger, corrected = run.ledger(), run.ledger().stamp()
    with st.popover("Correct", icon=":material/edit:", key=f"correct-{run.id}-{label}"):
        name = st.text_input(
            "Name of this cluster",
            labelling.curation.names.get(label, ""),
            max_chars=LONGEST_NAME,
            placeholder=labelling.topics[label].name,
            key=f"name-{run.id}-{label}-{corrected}",
            help="Leave it empty to have the cluster named by its words.",
        )
        word = st.selectbox(
            "Strike a word from all topics",
            labelling.topics[label].words,
            index=None,
            placeholder="Choose a word",
            key=f"strike-{run.id}-{label}-{corrected}",
        )
        try:
            if name.strip() != labelling.curation.names.get(label, ""):
                ledger.rename(label, name)
                st.rerun()
            if word:
                ledger.strike(word)
                st.rerun()
            if labelling.curation.struck:
                st.caption(plain(f"Struck: {', '.join(sorted(labelling.curation.struck))}"))
            if labelling.curation.can_undo and st.button("Undo the last correction", icon=":material/undo:"):
                ledger.undo()
                st.rerun()
        except (BadInput, OSError) as refusal:
            st.error(plain(str(refusal)))


main()

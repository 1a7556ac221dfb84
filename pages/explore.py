"""The map, the clusters, the documents, the topic words."""

from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from core.clusters.clustering import Clustering
from core.runs.store import Run
from core.tables import free_name
from core.tables.corpus import Corpus
from core.tables.export import table_bytes
from core.topics.describe import Topic
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
    corpus, clustering, topics = _load(str(run.folder), run.made_at())
    _show_metrics(run, corpus, topics)
    _show_map(run, corpus, clustering, topics)
    _show_clusters(run, corpus, clustering, topics)


@st.cache_resource(max_entries=3, show_spinner=False)
def _load(folder: str, made: int) -> tuple[Corpus, Clustering, list[Topic]]:
    """Open a finished run's table and its results, as they were made at that time."""
    run = Run(Path(folder))
    return run.corpus(), run.clustering(), run.topics()


def _show_metrics(run: Run, corpus: Corpus, topics: list[Topic]) -> None:
    metrics = run.metrics()
    found = sum(topic.size > 0 for topic in topics)
    st.caption(f"{len(corpus.used):,} texts of {len(corpus.table):,} rows in {found:,} clusters.")
    score = metrics["silhouette"]
    about = (
        f"How much nearer rows are to their own cluster than to the next, over {metrics['silhouette_sample']:,} rows."
    )
    shown = [("Silhouette", "–" if score is None else f"{score:.3f}", about)]
    shown += [(title, f"{100 * metrics[key]:.1f} %", help) for key, (title, help) in _METRICS.items() if key in metrics]
    with st.container(horizontal=True, gap="xsmall"):
        for title, value, help_text in shown:
            st.metric(title, value, help=help_text or None, border=True, width="content")


def _show_map(run: Run, corpus: Corpus, clustering: Clustering, topics: list[Topic]) -> None:
    """Draw the map; the points a person selects are listed below it with all their columns."""
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
    sample, points = run.map(layout or "umap")
    rows = corpus.used[sample]
    if by == BY_CLUSTER:
        colour = Colouring.by_cluster(clustering.labels[sample], [topic.name for topic in topics])
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
        table = _with_cluster(corpus, clustering, topics).iloc[sorted(set(positions))]
        st.markdown(
            f"**{len(table):,} selected**"
            + ("" if len(table) <= MOST_SELECTED else f", the first {MOST_SELECTED:,} shown")
        )
        st.dataframe(table.head(MOST_SELECTED), hide_index=True, height=min(400, 38 + 35 * len(table)))


def _row(customdata: object) -> int:
    return int(customdata[0] if isinstance(customdata, list | tuple) else customdata)  # type: ignore[call-overload]


def _show_clusters(run: Run, corpus: Corpus, clustering: Clustering, topics: list[Topic]) -> None:
    """List the clusters; the selected one is shown in full."""
    st.subheader("Clusters", anchor=False)
    st.caption("Mark a row to read its texts below.")
    used = max(len(corpus.used), 1)
    listing = pd.DataFrame(
        {
            "cluster": range(len(topics)),
            "name": [topic.name for topic in topics],
            "texts": [topic.size for topic in topics],
            "share": [100 * topic.size / used for topic in topics],
            "topic words": [", ".join(topic.words) for topic in topics],
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
    _show_cluster(run, corpus, clustering, topics, int(listing["cluster"].iloc[rows[0]]))


def _show_cluster(run: Run, corpus: Corpus, clustering: Clustering, topics: list[Topic], label: int) -> None:
    topic = topics[label]
    st.subheader(f"{label}: {plain(topic.name)}", anchor=False)
    left, right = st.columns([1, 2], gap="large")
    with left:
        st.markdown("**Topic words**")
        if topic.words:
            st.plotly_chart(
                words_figure(topic.words, topic.weights, label),
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
    rows = corpus.used[clustering.labels == label]
    view = _with_cluster(corpus, clustering, topics).iloc[rows]
    probability = str(view.columns[1])
    view = view.sort_values(probability, ascending=False, kind="stable")
    st.markdown(f"**All {len(view):,} rows**, the surest first, with all their columns")
    others = [str(column) for column in corpus.table.columns if column != corpus.text]
    st.dataframe(view, hide_index=True, height=420, column_order=[probability, corpus.text, *others])
    st.download_button(
        "Download these rows",
        lambda: table_bytes(run.labelled().iloc[rows], "csv", bom=True),
        f"cluster-{label}.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"download-{run.id}-{label}",
    )


def _with_cluster(corpus: Corpus, clustering: Clustering, topics: list[Topic]) -> pd.DataFrame:
    """Return the table with cluster, its name and probability in front, only for looking at."""
    view = corpus.table.copy(deep=False)
    name = np.full(len(view), "", dtype=object)
    probability = np.full(len(view), np.nan)
    name[corpus.used] = [topics[label].name for label in clustering.labels]
    probability[corpus.used] = clustering.probability
    view.insert(0, free_name("cluster_name", view.columns), name)
    view.insert(1, free_name("probability", view.columns), probability.round(3))
    return view


main()

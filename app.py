"""The list of pages; everything else is theirs."""

import streamlit as st

st.set_page_config(page_title="Topicscope", page_icon="assets/logo.svg", layout="wide")
st.logo("assets/wordmark.svg", icon_image="assets/logo.svg", size="large")
st.session_state["listed"] = True
st.navigation(
    [
        st.Page("pages/corpus.py", title="Corpus", icon=":material/table:", default=True),
        st.Page("pages/train.py", title="Train", icon=":material/model_training:"),
        st.Page("pages/explore.py", title="Explore", icon=":material/scatter_plot:"),
        st.Page("pages/export.py", title="Export", icon=":material/download:"),
    ]
).run()

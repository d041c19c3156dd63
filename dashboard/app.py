"""The page's navigation: `streamlit run dashboard/app.py`."""

from pathlib import Path

import streamlit as st

from dashboard import heap
from dashboard.views import compare, layer, measure, method, operators

st.set_page_config(page_title="mha-bench", page_icon=str(Path(__file__).parent / "icon.svg"), layout="wide")
heap.keep_small()

st.navigation(
    [
        st.Page(measure.show, title="Measure", url_path="measure", default=True),
        st.Page(layer.show, title="My layer", url_path="layer"),
        st.Page(operators.show, title="Operators", url_path="operators"),
        st.Page(compare.show, title="Compare", url_path="compare"),
        st.Page(method.show, title="Method", url_path="method"),
    ],
    position="top",
).run()

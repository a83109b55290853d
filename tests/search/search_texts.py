"""Texts for the tests of retrieval: what people write, and what breaks query languages."""

from __future__ import annotations

from hypothesis import strategies as st

SIGNS = "'\"`*^:-+()[]{}.,;!?<>|&%$#@~/\\=_ "

#: Anything, with much of what search has to tell apart.
texts = st.text(
    st.one_of(
        st.sampled_from("猫茶过敏的了用户アの한글aAbBzZ019" + SIGNS),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)

documents = st.lists(texts, max_size=8).map(lambda found: [(f"d{index}", text) for index, text in enumerate(found)])

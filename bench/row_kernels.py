"""Kernels that draw random rows; each row starts its own random numbers (splitmix64)."""

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def next_bits(state):
    """Return 64 random bits and advance `state`, uint64[1] (Steele et al., OOPSLA 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def start_row(state, seed, row):
    """Set `state` to the start of the random numbers of one row."""
    state[0] = np.uint64(seed)
    mixed = next_bits(state)
    state[0] = mixed ^ (np.uint64(row) * np.uint64(0xD1B54A32D192ED03))
    state[0] = next_bits(state)


@njit(cache=True, nogil=True)
def uniform(state):
    """Return a random number, 0 <= u < 1."""
    return (next_bits(state) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def normal_pair(state):
    """Return two standard normal numbers (Box-Muller); none is closer to 0 than 1e-14."""
    bits = next_bits(state)
    u = ((bits >> np.uint64(32)) + 0.5) * (1.0 / 4294967296.0)
    v = ((bits & np.uint64(0xFFFFFFFF)) + 0.5) * (2.0 * math.pi / 4294967296.0)
    radius = math.sqrt(-2.0 * math.log(u))
    return radius * math.cos(v), radius * math.sin(v)


@njit(cache=True, nogil=True)
def power_law_rows(
    seed, first, n_features, shortest, longest, weighted, n_topics, lean, stride, unstride,
    weights, indptr, indices, values, scores, normals,
):  # fmt: skip
    """Draw sparse rows; return their number of nonzeros.

    Rank r = floor((n + 1)^u) - 1, u uniform, has probability log((r + 2) / (r + 1)) / log(n + 1);
    its index is 1 + (r stride mod n). A row has a topic, and a share `lean` of its draws becomes
    the nearest rank with r mod n_topics equal to it. Unweighted values are 1. Weighted ones
    are in proportion to log(1 + count) log(2 + r), a tf-idf of a power law, in rows of unit length.

    Parameters
    ----------
    seed, first : int               the rows are `first`, `first + 1`, ...
    n_features : int                n above
    shortest, longest : int         draws of a row, uniform in the logarithm
    weighted : bool
    n_topics, lean : int, float
    stride, unstride : int          stride unstride = 1 mod n
    weights : float64[n_models, n_planted]      planted models, by rank
    indptr : int64[n_rows + 1]      written in place, as all below
    indices : int32[n_rows * longest]
    values : float64[n_rows * longest]
    scores, normals : float64[n_rows, n_models]     w_k' x, and a standard normal number for each
    """
    state = np.zeros(1, np.uint64)
    drawn = np.empty(longest, np.int64)
    log_n = math.log(n_features + 1.0)
    end = 0
    for i in range(scores.shape[0]):
        start_row(state, seed, first + i)
        n_drawn = int(shortest * math.exp(uniform(state) * math.log(longest / shortest)))
        topic = int(uniform(state) * n_topics) if lean > 0.0 else 0
        for k in range(n_drawn):
            rank = int(math.exp(uniform(state) * log_n)) - 1
            if lean > 0.0 and uniform(state) < lean:
                rank += topic - rank % n_topics
            drawn[k] = (min(rank, n_features - 1) * stride) % n_features
        drawn[:n_drawn].sort()
        start = end
        end = put_distinct(drawn[:n_drawn], indices, values, start)
        if weighted:
            for p in range(start, end):
                rank = (indices[p] - 1) * unstride % n_features
                values[p] = math.log(1.0 + values[p]) * math.log(2.0 + rank)
            scale_to_unit(values[start:end])
        else:
            values[start:end] = 1.0
        indptr[i + 1] = end

        scores[i] = 0.0
        for p in range(start, end):
            rank = (indices[p] - 1) * unstride % n_features
            if rank < weights.shape[1]:
                for k in range(weights.shape[0]):
                    scores[i, k] += weights[k, rank] * values[p]
        for k in range(weights.shape[0]):
            normals[i, k] = normal_pair(state)[0]
    return end


@njit(cache=True, nogil=True)
def put_distinct(drawn, indices, values, at):
    """Write the sorted 0-based `drawn` as distinct 1-based indices, counts as values, from `at`.

    Return the position after the last one.
    """
    for k in range(drawn.shape[0]):
        if k > 0 and drawn[k] == drawn[k - 1]:
            values[at - 1] += 1.0
        else:
            indices[at] = drawn[k] + 1
            values[at] = 1.0
            at += 1
    return at


@njit(cache=True, nogil=True)
def scale_to_unit(values):
    """Divide `values`, float64[n], by their Euclidean length, in place."""
    square = 0.0
    for p in range(values.shape[0]):
        square += values[p] * values[p]
    length = math.sqrt(square)
    for p in range(values.shape[0]):
        values[p] /= length


@njit(cache=True, nogil=True)
def dense_rows(seed, first, weights, values, scores, normals):
    """Fill `values` with standard normal rows scaled to unit length.

    Parameters
    ----------
    seed, first : int               the rows are `first`, `first + 1`, ...
    weights : float64[n_models, n_planted >= n_features]
    values : float64[n_rows, n_features]            written in place, as all below
    scores, normals : float64[n_rows, n_models]     w_k' x, and a standard normal number for each
    """
    state = np.zeros(1, np.uint64)
    n_rows, n_features = values.shape
    for i in range(n_rows):
        start_row(state, seed, first + i)
        for j in range(0, n_features, 2):
            even, odd = normal_pair(state)
            values[i, j] = even
            if j + 1 < n_features:
                values[i, j + 1] = odd
        scale_to_unit(values[i])
        for k in range(weights.shape[0]):
            score = 0.0
            for j in range(n_features):
                score += weights[k, j] * values[i, j]
            scores[i, k] = score
            normals[i, k] = normal_pair(state)[0]


@njit(cache=True, nogil=True)
def text_rows(
    seed, first, doc_indptr, doc_indices, idf, classes, class_starts, sorted_documents, three,
    flipped, labels, indptr, indices, values,
):  # fmt: skip
    """Merge random documents of one class into each row; return the number of nonzeros.

    x_j in proportion to log(1 + number of its documents that hold j) idf_j, rows of unit length.

    Parameters
    ----------
    seed, first : int               the rows are `first`, `first + 1`, ...
    doc_indptr : int64[n_documents + 1]
    doc_indices : int32[...]        1-based
    idf : float64[n_features + 1]
    classes : int64[n_classes]      label of each class
    class_starts : int64[n_classes + 1]     places of its documents in `sorted_documents`
    sorted_documents : int64[n_documents]
    three : float                   share of rows that merge three documents, not two
    flipped : float                 share of rows with the label of the next class
    labels : int64[n_rows]          written in place, as all below
    indptr : int64[n_rows + 1]
    indices : int32[n_rows * 3 * longest document]
    values : float64[n_rows * 3 * longest document]
    """
    state = np.zeros(1, np.uint64)
    drawn = np.empty(indices.shape[0] // labels.shape[0], np.int64)
    end = 0
    for i in range(labels.shape[0]):
        start_row(state, seed, first + i)
        c = int(uniform(state) * classes.shape[0])
        n_class = class_starts[c + 1] - class_starts[c]
        n_drawn = 0
        for _ in range(3 if uniform(state) < three else 2):
            doc = sorted_documents[class_starts[c] + int(uniform(state) * n_class)]
            for p in range(doc_indptr[doc], doc_indptr[doc + 1]):
                drawn[n_drawn] = doc_indices[p] - 1
                n_drawn += 1
        drawn[:n_drawn].sort()
        start = end
        end = put_distinct(drawn[:n_drawn], indices, values, start)
        for p in range(start, end):
            values[p] = math.log(1.0 + values[p]) * idf[indices[p]]
        scale_to_unit(values[start:end])
        indptr[i + 1] = end
        labels[i] = classes[(c + 1) % classes.shape[0] if uniform(state) < flipped else c]
    return end

"""Kernels that draw random rows; each row starts its own random numbers (splitmix64)."""

import math

import numpy as np
from numba import njit

FOLLOWS = 0.6
"""Share of words that are one of the usual successors of the word before."""
SUCCESSORS = 1000.0
"""How many usual successors a word has."""


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
def hashed(a, b):
    """Return a random number, 0 <= u < 1, that depends on two nonnegative integers alone."""
    z = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(b) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(32))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True, nogil=True)
def scattered(number, n):
    """Return where a random permutation of 0, ..., `n` - 1 has its element `number`.

    Odd factors and shifted sums permute the numbers below a power of two; what falls outside is
    permuted again (cycle walking).
    """
    bits = np.uint64(2)
    while (np.uint64(1) << bits) < np.uint64(n):
        bits += np.uint64(1)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    half = (bits + np.uint64(1)) // np.uint64(2)
    x = np.uint64(number)
    while True:
        x = (x * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)) & mask
        x ^= x >> half
        x = (x * np.uint64(0xD1B54A32D192ED03)) & mask
        x ^= x >> half
        x = (x * np.uint64(0xBF58476D1CE4E5B9)) & mask
        x ^= x >> half
        if x < np.uint64(n):
            return np.int64(x)


@njit(cache=True, nogil=True)
def power_law_rows(
    seed, first, n_features, shortest, longest, weighted, n_topics, lean, by_frequency,
    weights, indptr, indices, values, scores, normals,
):  # fmt: skip
    """Draw sparse rows; return their number of nonzeros.

    Rank r = floor((n + 1)^u) - 1, u uniform, has probability log((r + 2) / (r + 1)) / log(n + 1).
    A row has a topic, and a share `lean` of its draws becomes the nearest rank with r mod n_topics
    equal to it. Unweighted values are 1. Weighted ones are in proportion to
    log(1 + count) log(2 + r), a tf-idf of a power law, in rows of unit length.

    Parameters
    ----------
    seed, first : int               the rows are `first`, `first + 1`, ...
    n_features : int                n above
    shortest, longest : int         draws of a row, uniform in the logarithm
    weighted : bool
    n_topics, lean : int, float
    by_frequency : bool             indices are 1 + r, instead of a random permutation of these
    weights : float64[n_models, n_planted]      planted models, by rank
    indptr : int64[n_rows + 1]      written in place, as all below
    indices : int32[n_rows * longest]
    values : float64[n_rows * longest]
    scores, normals : float64[n_rows, n_models]     w_k' x, and a standard normal number for each
    """
    state = np.zeros(1, np.uint64)
    drawn, notes = np.empty(longest, np.int64), np.empty(longest, np.int64)
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
            rank = min(rank, n_features - 1)
            drawn[k] = noted(rank if by_frequency else scattered(rank, n_features), rank)
        drawn[:n_drawn].sort()
        start = end
        end = put_distinct(drawn[:n_drawn], indices, values, notes, start)
        for p in range(start, end):
            if weighted:
                values[p] = math.log(1.0 + values[p]) * math.log(2.0 + notes[p - start])
            else:
                values[p] = 1.0
        if weighted:
            scale_to_unit(values[start:end])
        indptr[i + 1] = end

        scores[i] = 0.0
        for p in range(start, end):
            rank = notes[p - start]
            if rank < weights.shape[1]:
                for k in range(weights.shape[0]):
                    scores[i, k] += weights[k, rank] * values[p]
        for k in range(weights.shape[0]):
            normals[i, k] = normal_pair(state)[0]
    return end


@njit(cache=True, nogil=True)
def noted(index, note):
    """Return a number that is sorted by `index`, and has a `note` below 2^31 with it."""
    return np.int64(index) << 31 | np.int64(note)


@njit(cache=True, nogil=True)
def put_distinct(drawn, indices, values, notes, at):
    """Write sorted numbers of `noted` as distinct 1-based indices, counts as values, from `at`.

    Return the position after the last one; the note of each index is written to `notes` from 0.
    """
    start = at
    for k in range(drawn.shape[0]):
        index = np.int32((drawn[k] >> 31) + 1)
        if at > start and index == indices[at - 1]:
            values[at - 1] += 1.0
        else:
            indices[at] = index
            values[at] = 1.0
            notes[at - start] = drawn[k] & 0x7FFFFFFF
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
def word_after(state, previous, n_words):
    """Return the rank of a word: one of the usual successors of the `previous`, or any.

    Words have the probabilities of `power_law_rows`, successors of a word among themselves too.
    """
    u = uniform(state)
    if previous >= 0 and uniform(state) < FOLLOWS:
        u = hashed(previous, int(SUCCESSORS ** uniform(state)))
    return min(int(math.exp(u * math.log(n_words + 1.0))) - 1, n_words - 1)


@njit(cache=True, nogil=True)
def slant(word, label, n_words):
    """Return how much a word leans to documents of a class, -1 to 1; the commonest hardly do."""
    known = math.log(2.0 + word) / math.log(2.0 + n_words)
    return known * (2.0 * hashed(word, label + 7) - 1.0)


@njit(cache=True, nogil=True)
def text_rows(
    seed, first, n_features, n_words, shortest, longest, leaning, flipped, by_frequency, classes,
    labels, indptr, indices, values,
):  # fmt: skip
    """Draw documents as their words and pairs of words in succession; return the nonzeros.

    A document has a class; a word is kept with probability 1 / (1 + exp(-`leaning` slant)), or
    another one is drawn. x_j is in proportion to log(1 + count) idf_j, rows of unit length, with
    the idf that follows from the probabilities of words; the one of a pair is the sum of both.

    Parameters
    ----------
    seed, first : int               the rows are `first`, `first + 1`, ...
    n_features, n_words : int       pairs share the features that are no words by a hash
    shortest, longest : int         words of a document, uniform in the logarithm
    leaning : float
    flipped : float                 share of rows with the label of the next class
    by_frequency : bool             words first, the most frequent before, instead of at random
    classes : int64[n_classes]      label of each class
    labels : int64[n_rows]          written in place, as all below
    indptr : int64[n_rows + 1]
    indices : int32[n_rows * 2 * longest]
    values : float64[n_rows * 2 * longest]
    """
    state = np.zeros(1, np.uint64)
    drawn, notes = np.empty(2 * longest, np.int64), np.empty(2 * longest, np.int64)
    typical = math.sqrt(float(shortest * longest))
    spread = math.log(n_words + 1.0) / typical  # one in so many words has rank 0, over `typical`
    end = 0
    for i in range(labels.shape[0]):
        start_row(state, seed, first + i)
        c = int(uniform(state) * classes.shape[0])
        n_drawn = int(shortest * math.exp(uniform(state) * math.log(longest / shortest)))
        n, previous, before = 0, -1, 0.0
        for _ in range(n_drawn):
            word = word_after(state, previous, n_words)
            for _ in range(4):
                if uniform(state) * (1.0 + math.exp(-leaning * slant(word, c, n_words))) < 1.0:
                    break
                word = word_after(state, previous, n_words)
            idf = math.log(2.0 + (word + 1.0) * spread)
            drawn[n] = noted(
                word if by_frequency else scattered(word, n_features), int(1000.0 * idf)
            )
            n += 1
            if previous >= 0:
                pair = n_words + int(hashed(previous, word + 1) * (n_features - n_words))
                drawn[n] = noted(
                    pair if by_frequency else scattered(pair, n_features),
                    int(1000.0 * (idf + before)),
                )
                n += 1
            previous, before = word, idf
        drawn[:n].sort()
        start = end
        end = put_distinct(drawn[:n], indices, values, notes, start)
        for p in range(start, end):
            values[p] = math.log(1.0 + values[p]) * 0.001 * notes[p - start]
        scale_to_unit(values[start:end])
        indptr[i + 1] = end
        labels[i] = classes[(c + 1) % classes.shape[0] if uniform(state) < flipped else c]
    return end

#!/usr/bin/env python3
"""Writes x.npy, y.npy (1,437 digits to train on) and xt.npy, yt.npy (360 held out) beside this file.

The 1,797 handwritten digits that scikit-learn bundles, as float32 [N, 1, 8, 8] in 0..1 and int64 labels. The split is
fixed and has the same share of every digit on both sides; both sides are in random order. Needs numpy and scikit-learn.
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 360


def split(labels, held_out):
    """(rows to train on, rows held out): every digit takes turns, so that both sides have the same shares."""
    order = np.random.RandomState(0).permutation(len(labels))
    place = np.empty(len(labels))  # of a row among those of its digit, in 0..1
    for digit in np.unique(labels):
        rows = order[labels[order] == digit]
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    test = np.zeros(len(labels), bool)
    test[np.argsort(place, kind="stable")[:held_out]] = True
    return order[~test[order]], order[test[order]]


def main():
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    labels = labels.astype(np.int64)
    train, test = split(labels, HELD_OUT)
    for name, value in dict(x=images[train], y=labels[train], xt=images[test], yt=labels[test]).items():
        np.save(HERE / f"{name}.npy", value)
        print(f"{name}.npy {value.dtype} {list(value.shape)}")


if __name__ == "__main__":
    main()

"""The data sets that come with this package, and where plug-ins register theirs."""

from __future__ import annotations

from pathlib import Path

from fastrcaps_search.data.data_set import DataSet, Shades
from fastrcaps_search.data.idx import IdxDataSet
from fastrcaps_search.registry import Registry

DATA_SETS: Registry[DataSet] = Registry("data set")

DIGITS = tuple("0123456789")

# The checksums were made with `gzip -dc FILE.gz | sha256sum` from the real data and compared with
# those that other projects publish; the largest classes were counted in the labels.
MNIST = IdxDataSet(
    name="mnist",
    class_names=DIGITS,
    train_size=60_000,
    validation_size=5_000,
    test_size=10_000,
    most_frequent=(563, 1_135),
    shades=Shades(0.1307, 0.3081, 0.0002),
    torchvision_name="MNIST",
    checksums=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION_MNIST = IdxDataSet(
    name="fashion-mnist",
    # Table of labels in the README of zalandoresearch/fashion-mnist.
    class_names=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    train_size=60_000,
    validation_size=5_000,
    test_size=10_000,
    most_frequent=(527, 1_000),
    shades=Shades(0.2860, 0.3530, 0.0485),
    torchvision_name="FashionMNIST",
    checksums=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
MNIST_MINI = IdxDataSet(
    name="mnist-mini",
    class_names=DIGITS,
    train_size=4_500,
    validation_size=500,
    test_size=500,
    most_frequent=(50, 50),
    shades=Shades(0.1313, 0.3086, 0.0001),
    drawn_from="mnist",
    own_folder=Path(__file__).parent,
    checksums=(
        "d7131fd16d32d642650fe6c9a3c2bf6dde8614b49d932b0b713a43b2fe5c9bdc",
        "63a7e99bd5569ee35d40893c4eea627a8077a925e3dd812bfd8e8b10a410f485",
        "d8cd1e03205a2204404c94ec884c4af3c583d8ab100479c459f5f2cfeebec158",
        "169fd913234e219a6366015a68494b831aa1d8c008f5bb3c87d660cc889abcfd",
    ),
)
"""5,000 digits of MNIST (LeCun, Cortes, Burges; CC BY-SA 3.0), 500 of each class: for a machine
without data or network. ``mnist-mini/SOURCE.txt`` says where they are from."""

for shipped in (MNIST, FASHION_MNIST, MNIST_MINI):
    DATA_SETS.register(shipped)

"""data: the digits, the canvases and the photographs are what they say, the same each time, and offline."""

import sys
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from mhalib import data


@pytest.fixture(scope="module")
def digits():
    return data.digits()


# Digits.


def test_digits_are_those_of_scikit_learn_each_once(digits):
    raw = load_digits()
    images = torch.cat([digits.train_images, digits.test_images])
    labels = torch.cat([digits.train_labels, digits.test_labels])
    ours = Counter(
        (*(image.flatten() * 16).int().tolist(), int(label)) for image, label in zip(images, labels, strict=True)
    )
    theirs = Counter((*map(int, row), int(label)) for row, label in zip(raw.data, raw.target, strict=True))
    assert ((ours - theirs).total(), (theirs - ours).total()) == (0, 0)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert images.min() == 0
    assert images.max() == 1


def test_digits_pixels_stand_upright(digits):
    """The first image of scikit-learn, a zero, is found as it is, not turned or mirrored."""
    first = torch.tensor(load_digits().images[0] / 16, dtype=torch.float32)
    everything = torch.cat([digits.train_images, digits.test_images])[:, 0]
    assert (everything == first).all((1, 2)).sum() == 1


def test_digits_split_is_fixed_and_every_class_has_its_share(digits):
    again = data.digits()
    assert all(torch.equal(one, two) for one, two in zip(digits, again, strict=True))
    assert (len(digits.train_labels), len(digits.test_labels)) == (1437, 360)
    whole = torch.bincount(torch.cat([digits.train_labels, digits.test_labels]))
    share = 360 * whole / whole.sum()
    assert (torch.bincount(digits.test_labels) - share).abs().max() <= 1
    assert digits.test_labels[:10].tolist() == FIRST_TEST_LABELS


FIRST_TEST_LABELS = [7, 6, 3, 7, 7, 3, 2, 8, 9, 3]


@pytest.mark.parametrize(("size", "error"), [(9, ValueError), (1788, ValueError), (36.0, TypeError), (True, TypeError)])
def test_digits_refuses_a_test_size(size, error):
    with pytest.raises(error, match="test_size: got"):
        data.digits(size)


# Canvases with two digits.


def numbered(count=20, height=3, width=2):
    """Images that can be told apart: image i is full of i + 1, its class is i % 10."""
    images = (torch.arange(count) + 1.0)[:, None, None, None].expand(count, 1, height, width)
    return images, torch.arange(count) % 10


@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    more=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    step=st.integers(1, 3),
    seed=st.integers(0, 2**20),
)
def test_every_digit_stands_where_places_and_regions_say(height, width, more, step, seed):
    images, labels = numbered(20, height, width)
    canvas = (height + more[0], 2 * width + step - 1 + more[1])  # two fit side by side
    drawn = data.two_digits(images, labels, 7, canvas=canvas, step=step, seed=seed)
    assert drawn.images.shape == (7, 1, *canvas)
    for row in range(7):
        rebuilt = torch.zeros(canvas)
        for k in range(2):
            top, left = drawn.places[row, k].tolist()
            piece = drawn.images[row, 0, top : top + height, left : left + width]
            assert piece.unique().numel() == 1
            assert (int(piece[0, 0]) - 1) % 10 == drawn.labels[row, k]
            assert top % step == left % step == 0
            rebuilt[top : top + height, left : left + width] += piece
            region = torch.zeros(canvas, dtype=torch.bool)
            region[top : top + height, left : left + width] = True
            assert torch.equal(drawn.regions[row, k], region)
        assert torch.equal(rebuilt, drawn.images[row, 0])  # nothing else on the canvas, and no overlap


def test_two_classes_that_differ_are_the_targets():
    drawn = data.two_digits(*numbered(), 300)
    assert (drawn.labels[:, 0] != drawn.labels[:, 1]).all()
    expected = torch.zeros(300, 10)
    for row, (one, two) in enumerate(drawn.labels.tolist()):
        expected[row, one] = expected[row, two] = 1
    assert torch.equal(drawn.targets, expected)


def test_every_digit_of_another_class_may_be_the_partner_and_every_free_place_is_used():
    images, labels = numbered(6, 2, 2)
    drawn = data.two_digits(images, labels, 3000, canvas=(4, 5), step=1)
    top, left = drawn.places[:, 0].T
    first = drawn.images[torch.arange(3000), 0, top, left]
    top, left = drawn.places[:, 1].T
    second = drawn.images[torch.arange(3000), 0, top, left]
    counts = torch.zeros(7, 7)
    for a, b in zip(first.int().tolist(), second.int().tolist(), strict=True):
        counts[a, b] += 1
    off = counts[1:, 1:][~torch.eye(6, dtype=torch.bool)]
    assert (counts[1:, 1:].diagonal() == 0).all()
    assert (off - 100).abs().max() < 50  # 3000 / 30, five standard deviations
    places = {tuple(map(tuple, pair)) for pair in drawn.places.tolist()}
    grid = [(t, c) for t in range(3) for c in range(4)]
    free = {(p, q) for p in grid for q in grid if abs(p[0] - q[0]) >= 2 or abs(p[1] - q[1]) >= 2}
    assert places == free


def test_digit_0_stands_as_often_on_the_right():
    drawn = data.two_digits(*numbered(20, 8, 8), 2000)
    right = (drawn.places[:, 0, 1] == 8).sum().item()
    assert set(drawn.places[:, :, 1].unique().tolist()) == {0, 8}
    assert abs(right - 1000) < 112  # five standard deviations


def test_the_seed_decides_and_torch_s_own_generator_is_left_alone(digits):
    images, labels = digits.test_images, digits.test_labels
    before = torch.get_rng_state()
    one, two, other = (data.two_digits(images, labels, 50, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.images, two.images)
    assert torch.equal(one.places, two.places)
    assert not torch.equal(one.labels, other.labels)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"canvas": (8, 15)}, ValueError, r"canvas: got \(8, 15\) with step=8.*\(8, 16\) with step=8"),
        ({"canvas": (7, 32)}, ValueError, "canvas: got"),
        ({"canvas": "wide"}, TypeError, "canvas: got 'wide'"),
        ({"canvas": (8, 16, 1)}, ValueError, r"canvas: got \(8, 16, 1\); accepted is \(height, width\)"),
        ({"canvas": (8, 16.0)}, TypeError, r"canvas: got \(8, 16.0\)"),
        ({"step": 0}, ValueError, "step: got 0"),
        ({"number": 0}, ValueError, "number: got 0"),
        ({"seed": -1}, ValueError, "seed: got -1"),
        ({"images": torch.zeros(20, 3, 8, 8)}, ValueError, "images: got"),
        ({"images": torch.zeros(20, 8, 8)}, ValueError, "images: got"),
        ({"images": torch.zeros(20, 1, 8, 8).int()}, ValueError, "images: got torch.int32"),
        ({"images": "digits"}, TypeError, "images: got str"),
        ({"labels": torch.arange(19) % 10}, ValueError, r"labels: got torch.int64 \(19,\)"),
        ({"labels": torch.arange(20.0)}, ValueError, "labels: got torch.float32"),
        ({"labels": torch.arange(20)}, ValueError, "labels: got 0 … 19"),
        ({"labels": torch.ones(20, dtype=torch.int64)}, ValueError, "labels: got 1 class"),
    ],
)
def test_two_digits_refuses(change, error, says):
    images, labels = numbered(20, 8, 8)
    arguments = {"images": images, "labels": labels, "number": 4} | change
    with pytest.raises(error, match=says):
        data.two_digits(**arguments)


# Photographs.


@pytest.mark.parametrize("name", data.PHOTOGRAPHS)
def test_photographs_are_scikit_image_s_own_pixels(name):
    from skimage import data as theirs

    image = data.photograph(name)
    height, width, channels = data.PHOTOGRAPHS[name]
    raw = getattr(theirs, name)().reshape(height, width, channels)
    assert (image.dtype, tuple(image.shape)) == (torch.float32, (channels, height, width))
    for y, x in ((0, 0), (10, 200), (height - 1, width - 1)):
        for c in range(channels):
            assert image[c, y, x] == torch.tensor(int(raw[y, x, c]) / 255)
    assert 0 <= image.min() < image.max() <= 1


def test_photographs_come_out_of_the_wheel_without_a_network(monkeypatch, tmp_path):
    import socket

    def refuse(*_):
        raise AssertionError("a photograph asked for a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in data.PHOTOGRAPHS:
        data.photograph(name, 8)


@pytest.mark.parametrize(("name", "size"), [("chelsea", (37, 64)), ("camera", 32), ("rocket", (64, 17))])
def test_resized_photographs_average_what_they_cover(name, size):
    """The mean of a shrunk photograph is that of the centred part; a rotation or a stretch of the rest would show."""
    height, width = (size, size) if isinstance(size, int) else size
    whole, small = data.photograph(name), data.photograph(name, size)
    assert small.shape == (whole.shape[0], height, width)
    full_h, full_w = whole.shape[1:]
    part_h, part_w = min(full_h, full_w * height / width), min(full_w, full_h * width / height)
    top, left = (full_h - part_h) / 2, (full_w - part_w) / 2
    for rows, columns in ((slice(0, height // 2), slice(0, width // 2)), (slice(height // 2, None), slice(None))):
        low_y, high_y = (round(top + (edge or 0) * part_h / height) for edge in (rows.start, rows.stop or height))
        low_x, high_x = (round(left + (edge or 0) * part_w / width) for edge in (columns.start, columns.stop or width))
        expected = whole[:, low_y:high_y, low_x:high_x].mean((1, 2))
        assert (small[:, rows, columns].mean((1, 2)) - expected).abs().max() < 0.02


def test_a_photograph_at_its_own_size_is_unchanged():
    whole = data.photograph("chelsea")
    assert (data.photograph("chelsea", (300, 451)) - whole).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("lena",), ValueError, "name: got 'lena'; accepted are 'astronaut'"),
        (("camera", 0), ValueError, "size: got 0"),
        (("camera", 1.5), TypeError, "size: got 1.5"),
        (("camera", (3,)), ValueError, r"size: got \(3,\)"),
    ],
)
def test_photograph_refuses(arguments, error, says):
    with pytest.raises(error, match=says):
        data.photograph(*arguments)


@pytest.mark.parametrize(
    ("call", "module", "package"),
    [
        (data.digits, "sklearn.datasets", "scikit-learn"),
        (lambda: data.photograph("moon"), "skimage.data", "scikit-image"),
    ],
)
def test_a_missing_library_is_named_alone(monkeypatch, call, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install {package}$"):
        call()

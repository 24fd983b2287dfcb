"""alignment_drawings: what is drawn are the numbers that were given, and nonsense is refused."""

import numpy as np
import pytest
import torch

from mhalib.course import alignment_drawings, plots

STATES = torch.linspace(-1, 1, 12).view(3, 4)


def strips(figure):
    return [image.get_array()[:, 0] for image in figure.axes[0].get_images()]


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_one_vector_draws_each_state_once():
    figure = alignment_drawings.one_vector(["I", "love", "$you$"], STATES, ["je", "t'"], -STATES[:2])
    assert np.allclose(strips(figure), [*STATES, *-STATES[:2]])
    assert words(figure)[:5] == ["I", "love", "$you$", "je", "t'"]
    assert plots.png(figure).startswith(b"\x89PNG")


def test_one_step_draws_lines_as_thick_as_their_weights():
    weights = torch.tensor([0.1, 0.7, 0.2])
    figure = alignment_drawings.one_step(list("abc"), STATES, weights, STATES[1], -STATES[1], "s", "t'")
    assert np.allclose(strips(figure), [*STATES, STATES[1], -STATES[1]])
    thick = [line.get_linewidth() for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert np.diff(thick) == pytest.approx([8 * 0.6, -8 * 0.5])
    assert words(figure)[3:6] == ["0.10", "0.70", "0.20"]
    assert plots.png(figure).startswith(b"\x89PNG")


def test_terms_draws_vectors_numbers_and_signs_in_order():
    figure = alignment_drawings.terms(
        [("W s", STATES[0]), "+", ("U h", STATES[1]), "→", ("score", torch.tensor(0.256))]
    )
    assert np.allclose(strips(figure), STATES[:2])
    assert words(figure) == ["W s", "+", "U h", "→", "0.26", "score"]
    assert plots.png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: alignment_drawings.terms([]), "pieces: got none"),
        (lambda: alignment_drawings.terms([("v", STATES)]), r"v: got float\d+ \(3, 4\)"),
        (lambda: alignment_drawings.one_vector(list("ab"), STATES, list("xy"), STATES[:2]), "source_tokens: got 2"),
        (lambda: alignment_drawings.one_vector(list("abc"), STATES[0], list("xy"), STATES[:2]), "states: got"),
        (
            lambda: alignment_drawings.one_step(list("abc"), STATES, torch.ones(2) / 2, STATES[0], STATES[0], "s", "x"),
            "weights: got 2 for 3 states",
        ),
    ],
)
def test_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()

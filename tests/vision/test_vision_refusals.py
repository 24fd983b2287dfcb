"""What a Vision Transformer cannot do is refused: the message names the argument, what came and what is accepted."""

import pytest
import torch
from test_vision import drawn, model

from mhalib import vision
from mhalib.vision.positions import interpolate_positions

SHAPE = dict(num_classes=3, d_model=8, depth=1, num_heads=2)


@pytest.mark.parametrize(
    ("error", "words", "image_size", "patch_size", "options"),
    [
        (ValueError, "image_size: height 9 .* 2; accepted are multiples such as 8 and 10", 9, 2, {}),
        (ValueError, "image_size: width 7 .* 3", (6, 7), 3, {}),
        (ValueError, "image_size: height 2 .* 4; accepted are multiples such as 4:", 2, 4, {}),
        (ValueError, "patch_size: got .*height, width", 8, (2, 2, 2), {}),
        (TypeError, "patch_size: got 2.0", 8, 2.0, {}),
        (TypeError, "image_size: got True", True, 1, {}),
        (ValueError, "image_size: got 0", 0, 1, {}),
        (ValueError, "in_channels: got 0", 8, 2, {"in_channels": 0}),
        (ValueError, "num_classes: got 0", 8, 2, {"num_classes": 0}),
        (TypeError, "depth: got 1.5", 8, 2, {"depth": 1.5}),
        (ValueError, "num_heads: got 3 for d_model=8", 8, 2, {"num_heads": 3}),
        (ValueError, "num_registers: got -1", 8, 2, {"num_registers": -1}),
        (ValueError, "positions: got 'rotary'; accepted are .*'learned'", 8, 2, {"positions": "rotary"}),
        (ValueError, "positions: got", 8, 2, {"positions": ["learned"]}),
        (ValueError, "d_model: got 6; .* multiple of 4", 8, 2, {"positions": "sinusoidal", "d_model": 6}),
        (ValueError, "mlp_ratio: got 1.3 for d_model=8", 8, 2, {"mlp_ratio": 1.3}),
        (ValueError, "mlp_ratio: got -1", 8, 2, {"mlp_ratio": -1}),
        (ValueError, "mlp_ratio: got 0.01", 8, 2, {"mlp_ratio": 0.01}),
        (TypeError, "mlp_ratio: got str '4'", 8, 2, {"mlp_ratio": "4"}),
        (ValueError, "norm_eps: got 0", 8, 2, {"norm_eps": 0}),
    ],
)
def test_what_no_model_can_be_built_from(error, words, image_size, patch_size, options):
    with pytest.raises(error, match=words):
        vision.VisionTransformer(image_size, patch_size, **(SHAPE | options))


@pytest.mark.parametrize(
    ("error", "words", "images"),
    [
        (TypeError, "images: got list", [1.0]),
        (ValueError, r"images: got shape \(2, 6, 15\)", drawn(2, 6, 15)),
        (ValueError, r"images: got shape \(2, 3, 6, 15\)", drawn(2, 3, 6, 15)),
        (ValueError, r"images: got \(15, 6\) pixels; accepted are \(6, 15\).*at_size", drawn(2, 2, 15, 6)),
        (ValueError, r"images: got \(8, 15\) pixels", drawn(2, 2, 8, 15)),
        (TypeError, r"images: got torch.float32 where the model is torch.float64", drawn(2, 2, 6, 15).float()),
        (TypeError, r"images: got torch.uint8 .*/ 255", torch.zeros(2, 2, 6, 15, dtype=torch.uint8)),
        (ValueError, r"images: are on meta", torch.zeros(2, 2, 6, 15, dtype=torch.float64, device="meta")),
    ],
)
def test_images_that_do_not_fit(error, words, images):
    net = model()
    for run in (net, net.embed, net.patch_embedding):
        with pytest.raises(Exception, match=words) as refusal:
            run(images)
        assert refusal.type is error


def test_patches_that_do_not_fit():
    with pytest.raises(ValueError, match="images: width 15 is not a multiple of the patch's 4"):
        vision.cut_patches(drawn(1, 1, 6, 15), (2, 4))
    with pytest.raises(ValueError, match=r"images: got shape \(6, 15\)"):
        vision.cut_patches(drawn(6, 15), 3)
    with pytest.raises(ValueError, match="images: height 0"):
        vision.cut_patches(drawn(1, 1, 0, 15), 3)
    with pytest.raises(TypeError, match="images"):
        vision.cut_patches([[0.0]], 1)
    with pytest.raises(ValueError, match=r"image_size: height 7 .* 2"):
        model().at_size((7, 15))


def test_maps_are_given_or_refused_and_never_missing():
    images = drawn(1, 2, 6, 15)
    with pytest.raises(TypeError, match="need_weights: got 1"):
        model()(images, need_weights=1)
    with pytest.raises(ValueError, match="backend: 'sdpa' cannot serve this request"):
        model(backend="sdpa")(images, need_weights=True)
    with pytest.raises(ValueError, match="backend: got 'flash'"):
        model(backend="flash")(images)


@pytest.mark.parametrize(
    ("error", "words", "table", "grid", "new_grid", "options"),
    [
        (TypeError, "table: got ndarray", drawn(1, 16, 2).numpy(), (3, 5), (2, 2), {}),
        (ValueError, r"table: got shape \(1, 16, 2\); accepted is \(1, 13", drawn(1, 16, 2), (3, 4), (2, 2), {}),
        (ValueError, r"accepted is \(1, 15", drawn(1, 16, 2), (3, 5), (2, 2), {"num_prefix": 0}),
        (ValueError, r"table: got shape \(16, 2\)", drawn(16, 2), (3, 5), (2, 2), {}),
        (ValueError, "new_grid: got 0", drawn(1, 16, 2), (3, 5), (0, 2), {}),
        (TypeError, "new_grid: got 2.5", drawn(1, 16, 2), (3, 5), 2.5, {}),
        (TypeError, "table: got torch.int64", torch.zeros(1, 16, 2, dtype=torch.int64), (3, 5), (2, 2), {}),
        (ValueError, "num_prefix: got -1", drawn(1, 16, 2), (3, 5), (2, 2), {"num_prefix": -1}),
    ],
)
def test_tables_that_do_not_fit_their_grid(error, words, table, grid, new_grid, options):
    with pytest.raises(error, match=words):
        interpolate_positions(table, grid, new_grid, **options)

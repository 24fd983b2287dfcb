"""Sizes and numbers as NumPy gives them are taken by everything in vision and course, and kept as Python's own."""

import numpy as np
import pytest
import torch

from mhalib import counting, data, faithfulness, gates, plots, saliency, training, vision, widgets
from mhalib.pretrained import BertEncoder, random_twin
from mhalib.vision.positions import POSITIONS, interpolate_positions

VIT = {"num_classes": 3, "d_model": 8, "depth": 1, "num_heads": 2, "in_channels": 1, "mlp_ratio": 2.0, "norm_eps": 1e-6}
BERT = {"vocab_size": 9, "d_model": 8, "num_layers": 1, "num_heads": 2, "d_ff": 16, "max_positions": 5}
BERT |= {"type_vocab_size": 2, "norm_eps": 1e-12}


def model():
    torch.manual_seed(0)
    return vision.VisionTransformer(4, 2, **VIT).eval()


def images():
    return torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(1))


def maps():
    return model()(images(), need_weights=True)[1]


def seeded(build):
    def built(**options):
        torch.manual_seed(0)
        return build(**options)

    return built


def trained(**options):
    module = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(module.weight)
    training.fit(module, torch.eye(2), torch.tensor([0, 1]), progress=False, **options)
    return module


def two_digits(**options):
    return data.two_digits(
        torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(0)), torch.arange(4), **options
    )


UNIFORM = np.full((3, 3), 1 / 3)
RAMP = torch.arange(4.0).expand(2, 4)
#: Function → its arguments that are sizes or numbers, by name, and those that stand as they are.
CALLS = {
    "VisionTransformer": (
        seeded(vision.VisionTransformer),
        {"image_size": 4, "patch_size": 2, "num_registers": 1, **VIT},
    ),
    "VisionTransformer, pairs": (seeded(vision.VisionTransformer), {"image_size": (4, 6), "patch_size": (2, 3), **VIT}),
    "VisionTransformerBlock": (
        seeded(vision.VisionTransformerBlock),
        {"d_model": 8, "num_heads": 2, "d_ff": 16, "norm_eps": 1e-6},
    ),
    "PatchEmbedding": (
        seeded(vision.PatchEmbedding),
        {"image_size": 4, "patch_size": (2, 2), "in_channels": 1, "d_model": 8},
    ),
    **{f"positions {name}": (seeded(kind), {"grid": (2, 3), "d_model": 8}) for name, kind in POSITIONS.items()},
    "BertEncoder": (seeded(BertEncoder), BERT),
    "random_twin": (lambda **o: random_twin(torch.nn.Linear(2, 2), **o).in_features, {"seed": 1}),
    "SqueezeExcitation": (seeded(gates.SqueezeExcitation), {"channels": 4, "reduction": 2}),
    "ChannelAttention": (seeded(gates.ChannelAttention), {"channels": 4, "reduction": 2}),
    "SpatialAttention": (seeded(gates.SpatialAttention), {"kernel_size": 3}),
    "CBAM": (seeded(gates.CBAM), {"channels": 4, "reduction": 2, "kernel_size": 3}),
    "ConvNet": (seeded(gates.ConvNet), {"num_classes": 3, "in_channels": 1, "widths": (2, 4)}),
    "cut_patches": (lambda **o: vision.cut_patches(images(), **o), {"patch_size": 2}),
    "at_size": (lambda **o: model().at_size(**o), {"image_size": (4, 6)}),
    "interpolate_positions": (
        lambda **o: interpolate_positions(torch.ones(1, 5, 2), **o),
        {"grid": (2, 2), "new_grid": (3, 3), "num_prefix": 1},
    ),
    "class_attention": (lambda **o: saliency.class_attention(maps(), **o), {"layer": -1, "prefix": 1}),
    "rollout": (lambda **o: saliency.rollout(maps(), **o), {"discard": 0.5, "prefix": 1}),
    "cdam": (lambda **o: saliency.cdam(model(), images(), **o), {"target": 2}),
    "smooth_cdam": (
        lambda **o: saliency.smooth_cdam(model(), images(), **o),
        {"target": 2, "noise": 0.5, "samples": 2, "seed": 3},
    ),
    "integrated_cdam": (lambda **o: saliency.integrated_cdam(model(), images(), **o), {"target": 1, "steps": 2}),
    "input_times_gradient": (lambda **o: saliency.input_times_gradient(model(), images(), **o), {"target": 1}),
    "per_patch": (lambda **o: saliency.per_patch(images(), **o), {"patch_size": 2}),
    "randomised": (lambda **o: faithfulness.randomised(model(), **o), {"stages": 1, "seed": 2}),
    "deletion_curve": (
        lambda **o: faithfulness.deletion_curve(model(), images(), RAMP, **o),
        {"target": 0, "baseline": 0.5},
    ),
    "digits": (data.digits, {"test_size": 300}),
    "two_digits": (two_digits, {"number": 3, "canvas": (2, 4), "step": 2, "seed": 1}),
    "photograph": (lambda **o: data.photograph("coins", **o), {"size": (6, 8)}),
    "fit": (seeded(trained), {"epochs": 2, "batch_size": 1, "learning_rate": 0.5, "weight_decay": 0.25, "seed": 1}),
    "predict": (lambda **o: training.predict(torch.nn.Identity(), torch.eye(3), **o), {"batch_size": 2}),
    "attention_map": (lambda **o: plots.attention_map(UNIFORM, list("abc"), **o), {"mark": (0, 1), "vmax": 0.5}),
    "heads_grid": (
        lambda **o: plots.heads_grid(UNIFORM[None], list("abc"), **o),
        {"mark": (0, 1), "vmax": 0.5, "columns": 2},
    ),
    "mask_grid": (lambda **o: plots.mask_grid({"m": np.tri(2, dtype=bool)}, **o), {"columns": 2}),
    "lines": (lambda **o: plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", **o), {"mark_x": 1.5}),
    "heads": (lambda **o: widgets.heads(UNIFORM[None, None], list("abc"), **o), {"layer": 0, "head": 0, "query": 1}),
    "attention_parameters": (
        counting.attention_parameters,
        {"d_model": 2**20, "num_heads": 2**7, "num_kv_heads": 2**6, "head_dim": 2**20},
    ),
    "attention_flops": (
        counting.attention_flops,
        {"length": 2**20, "d_model": 2**20, "num_heads": 2**7, "window": 2**10, "batch_size": 2**20},
    ),
    "kv_cache_bytes": (
        counting.kv_cache_bytes,
        {"layers": 2**7, "num_kv_heads": 2**7, "head_dim": 2**7, "tokens": 2**30, "window": 2**30},
    ),
    "score_matrix_bytes": (
        counting.score_matrix_bytes,
        {"batch_size": 2**20, "num_heads": 2**7, "lq": 2**20, "lk": 2**20, "bytes_per_value": 2},
    ),
}


def like_numpy(value, whole, real):
    """The same with NumPy's numbers, in pairs too."""
    if isinstance(value, tuple):
        return tuple(like_numpy(one, whole, real) for one in value)
    return whole(value) if isinstance(value, int) else real(value)


def comparable(result):
    """What can be compared: text of modules and the weights in them, tensors, numbers."""
    if isinstance(result, torch.nn.Module):
        return [repr(result), vars_of(result), *(value.tolist() for value in result.state_dict().values())]
    if isinstance(result, torch.Tensor):
        return result.tolist()
    if isinstance(result, tuple):
        return [type(one) is int or comparable(one) for one in result], repr(result)[:200]
    return plots.png(result) if hasattr(result, "savefig") else repr(result)


def vars_of(module):
    """Every plain value that a module keeps, of itself and of its parts, as text: "np.int64(8)" would show."""
    plain = int | float | tuple | np.generic
    return [
        (name, key, repr(value))
        for name, part in module.named_modules()
        for key, value in vars(part).items()
        if isinstance(value, plain)
    ]


@pytest.mark.parametrize(("call", "options"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("whole", "real"), [(np.int64, np.float64), (np.int32, np.float32)])
def test_numbers_of_numpy_give_the_same(call, options, whole, real):
    # What float32 holds of 1e-6 is another number: both sides get it.
    exact = {name: like_numpy(value, int, lambda x: float(real(x))) for name, value in options.items()}
    expected = comparable(call(**exact))
    assert comparable(call(**like_given(options, whole, real))) == expected
    assert "np." not in str(expected)


def like_given(options, whole, real):
    return {name: like_numpy(value, whole, real) for name, value in options.items()}

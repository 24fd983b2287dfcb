"""Faults of the maps and of the checks of maps."""

from engine import Fault

SALIENCY = "vision/saliency.py"
FAITHFULNESS = "vision/faithfulness.py"

FAULTS = [
    Fault(
        "a rollout multiplies the later layer from the right",
        SALIENCY,
        "rollout",
        "mixed / mixed.sum(-1, keepdim=True) @ joint",
        "joint @ (mixed / mixed.sum(-1, keepdim=True))",
        "test_saliency_attention.py::later_layer_stands_on_the_left",
    ),
    Fault(
        "a rollout does not normalise its rows",
        SALIENCY,
        "rollout",
        "mixed / mixed.sum(-1, keepdim=True)",
        "mixed",
        "test_saliency_attention.py::rows_of_a_rollout",
    ),
    Fault(
        "a rollout divides column j by the sum of row j",
        SALIENCY,
        "rollout",
        "mixed.sum(-1, keepdim=True)",
        "mixed.sum(-1)[:, None]",
        "test_saliency_attention.py::divided_by_its_own_sum",
    ),
    Fault(
        "a rollout leaves out the residual connection",
        SALIENCY,
        "rollout",
        "0.5 * identity",
        "0.0 * identity",
        "test_saliency_attention.py::later_layer_stands_on_the_left",
    ),
    Fault(
        "a rollout discards the class column",
        SALIENCY,
        "_without_smallest",
        "weights[..., :prefix]",
        "0 * weights[..., :prefix]",
        "test_saliency_attention.py::keeps_the_class_column",
    ),
    Fault(
        "a rollout discards registers with the patches",
        SALIENCY,
        "rollout",
        "_without_smallest(fuse_heads(weights, fusion), discard, prefix)",
        "_without_smallest(fuse_heads(weights, fusion), discard, 1)",
        "test_saliency_attention.py::equals_the_loops",
    ),
    Fault(
        "a rollout discards the largest weights",
        SALIENCY,
        "_without_smallest",
        "patches.argsort(dim=-1, stable=True)",
        "patches.argsort(dim=-1, descending=True, stable=True)",
        "test_saliency_attention.py::equals_the_loops",
    ),
    Fault(
        "the class token's column is taken for its row",
        SALIENCY,
        "class_attention",
        "maps[:, layer, :, 0, prefix:]",
        "maps[:, layer, :, prefix:, 0]",
        "test_saliency_attention.py::is_the_class_tokens_row",
    ),
    Fault(
        "weights after dropout are accepted",
        SALIENCY,
        "_check_maps",
        "not off <= tolerance or (maps < 0).any()",
        "(maps < 0).any()",
        "test_saliency_attention.py::maps_that_are_refused and dropout",
    ),
    Fault(
        "the gradient is that of the tokens before the norm",
        SALIENCY,
        "_gradient",
        """\
tokens = tokens.detach().requires_grad_()
left, _ = _last_block(model).after_norm1(residual, tokens)
""",
        """\
tokens = residual.detach().requires_grad_()
left, _ = _last_block(model)(tokens)
""",
        "test_saliency_class.py::without_a_gradient",
    ),
    Fault(
        "CDAM leaves out the tokens",
        SALIENCY,
        "cdam",
        "tokens * _gradient(model, residual, tokens, target)",
        "_gradient(model, residual, tokens, target)",
        "test_saliency_class.py::without_a_gradient",
    ),
    Fault(
        "CDAM takes the tokens of the first block",
        SALIENCY,
        "_before_last_attention",
        "model.blocks[:-1]",
        "model.blocks[:0]",
        "test_saliency_class.py::without_a_gradient",
    ),
    Fault(
        "CDAM loses its sign",
        SALIENCY,
        "_scores",
        "products.sum(-1)",
        "products.sum(-1).abs()",
        "test_saliency_class.py::without_a_gradient",
    ),
    Fault(
        "registers are shown as patches",
        SALIENCY,
        "_scores",
        "1 + model.num_registers",
        "1",
        "test_saliency_class.py::without_a_gradient",
    ),
    Fault(
        "the whole batch has the class of its first image",
        SALIENCY,
        "class_scores",
        "logits.gather(1, target[:, None])[:, 0]",
        "logits[:, int(target[0]) if batch else 0]",
        "test_saliency_class.py::without_a_gradient",
        given=("(batch,)",),
    ),
    Fault(
        "smooth CDAM multiplies tokens without their noise",
        SALIENCY,
        "smooth_cdam",
        "noisy * _gradient(model, residual, noisy, target)",
        "tokens * _gradient(model, residual, noisy, target)",
        "test_saliency_class.py::mean_over_noisy_tokens",
        given=("tokens.mean",),
    ),
    Fault(
        "the path of integrated CDAM stops halfway",
        SALIENCY,
        "integrated_cdam",
        "(k + 0.5) / steps",
        "(k + 0.5) / steps / 2",
        "test_saliency_class.py::adds_up_to_the_change",
    ),
    Fault(
        "input times gradient leaves out the input",
        SALIENCY,
        "input_times_gradient",
        "images.detach() * gradient",
        "gradient",
        "test_saliency_class.py::input_times_gradient_equals",
    ),
    Fault(
        "a model in training mode is accepted",
        SALIENCY,
        "check_model",
        """\
if model.training:
    ...
""",
        """\
if False:
    ...
""",
        "test_saliency_class.py::what_is_refused and call",
    ),
    Fault(
        "weights are randomised from the input on",
        FAITHFULNESS,
        "randomised",
        "names[:stages]",
        "names[::-1][:stages]",
        "test_saliency_faithfulness.py::shuffles_the_last_stages",
    ),
    Fault(
        "the trained model itself is randomised",
        FAITHFULNESS,
        "randomised",
        "copy.deepcopy(model)",
        "model",
        "test_saliency_faithfulness.py::shuffles_the_last_stages",
    ),
    Fault(
        "the lowest score is deleted first",
        FAITHFULNESS,
        "deletion_curve",
        "scores.argsort(dim=1, descending=True, stable=True)",
        "scores.argsort(dim=1, stable=True)",
        "test_saliency_faithfulness.py::deletion_curve_equals",
    ),
    Fault(
        "the order of the patches is taken for their rank",
        FAITHFULNESS,
        "deletion_curve",
        "scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1)",
        "scores.argsort(dim=1, descending=True, stable=True)",
        "test_saliency_faithfulness.py::deletion_curve_equals",
    ),
    Fault(
        "patches are deleted with height and width exchanged",
        FAITHFULNESS,
        "deletion_curve",
        "rank.repeat_interleave(embedding.patch_size[0], 2).repeat_interleave(embedding.patch_size[1], 3)",
        "rank.repeat_interleave(embedding.patch_size[1], 3).repeat_interleave(embedding.patch_size[0], 2)"
        ".mT.reshape(-1, 1, *images.shape[2:])",
        "test_saliency_faithfulness.py::deletion_curve_equals",
        given=("len(images)",),
    ),
    Fault(
        "the correlation is not centred",
        FAITHFULNESS,
        "correlation",
        "m - m.mean(1, keepdim=True)",
        "m",
        "test_saliency_faithfulness.py::that_of_numpy",
    ),
]

"""The attention of `transformers`' BERT, GPT-2, Llama, Mistral and ViT, on tiny random models, layer by layer.

Each model is run whole, so that it makes its own masks and positions; hooks catch what goes into each attention layer
and what comes out. The same hidden states go through `mhalib.MultiHeadAttention` with the same weights, and with the
mask written in this library's words: `key_lengths`, `causal`, `window`.

Only real rows are compared. The query of a padded token is nobody's: its output is thrown away by whoever asked for
padding. With padding on the left it is also a row that may see no key: the eager code adds the dtype's finite minimum
to all its scores, which leaves a row of weights that sums to 1, torch's SDPA gives 0 there, and so does this library.
"""

import pytest
import torch
from hf_models import HEADS, HIDDEN, LAYERS, LENGTH, ROPE_BASE, VOCABULARY, WINDOW, ExactRotary, build, watched
from torch import nn

import mhalib

#: Outputs are of size 1 and sums of 32 to 48 terms: some tens of roundings of 6e-8 at most, in float64 of 1e-16.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
DTYPES = [torch.float32, torch.float64]
#: BERT pads on the right, ViT has nothing to hide, the others hide the future.
RESTRICTION = {
    "bert": {},
    "vit": {},
    "gpt2": {"causal": True},
    "llama": {"causal": True},
    "mistral": {"causal": True},
}
IMPLEMENTATIONS = ["eager", "sdpa"]


def token_ids(batch=3):
    return torch.randint(VOCABULARY, (batch, LENGTH), generator=torch.Generator().manual_seed(2))


def run(name, dtype, implementation, **inputs):
    """The case, and what its layers saw."""
    case = build(name, dtype, implementation)
    if dtype == torch.float64 and name in ("llama", "mistral"):
        case.model.rotary_emb = ExactRotary(case.ours[0].head_dim)
    if name == "vit":
        pixels = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        inputs = {"pixel_values": pixels.to(dtype)}
    else:
        inputs = {"input_ids": token_ids(), **inputs}
    with torch.no_grad(), watched(case) as caught:
        case.model(**inputs)
    return case, caught


def assert_close(actual, expected, tolerance, what):
    worst = (actual - expected).abs().max().item()
    assert worst <= tolerance, f"{what}: off by {worst:.3g}, allowed {tolerance:.3g}"


def assert_telling(seen):
    """The comparison could fail: outputs of size about 1, and weights that differ from key to key and head to head."""
    assert 0.1 < seen.output.std() < 2
    if seen.weights is not None:
        last = seen.weights[:, :, -1]
        assert last.std(dim=-1).min() > 0.01
        assert (last[:, 0] - last[:, 1]).abs().max() > 0.05


def compare(name, dtype, implementation, caught, case, real=None, **restriction):
    """Every layer: output, and weights per head where theirs are there, on the `real` rows (B, L)."""
    tolerance = TOLERANCE[dtype]
    for number, (seen, ours) in enumerate(zip(caught, case.ours, strict=True)):
        assert_telling(seen)
        assert (seen.weights is None) == (implementation == "sdpa")
        rows = torch.ones(seen.hidden.shape[:2], dtype=torch.bool) if real is None else real
        with torch.no_grad():
            fused, nothing = ours(seen.hidden, **restriction)
            output, weights = ours(seen.hidden, need_weights=True, **restriction)
        assert nothing is None
        where = f"{name}, layer {number}, {implementation}, {dtype}"
        assert_close(fused[rows], seen.output[rows], tolerance, f"{where}: output")
        assert_close(output[rows], seen.output[rows], tolerance, f"{where}: output, weights asked for")
        if seen.weights is not None:
            by_row = (weights.transpose(1, 2)[rows], seen.weights.transpose(1, 2)[rows])
            assert_close(*by_row, tolerance, f"{where}: weights")


#: These two compute the softmax of the eager path in float32, whatever the dtype: SDPA is their float64 oracle.
FLOAT32_SOFTMAX = ("llama", "mistral", "vit")


CASES = [
    pytest.param(name, dtype, implementation, id=f"{name}-{str(dtype)[6:]}-{implementation}")
    for name in RESTRICTION
    for dtype in DTYPES
    for implementation in IMPLEMENTATIONS
    if not (name in FLOAT32_SOFTMAX and dtype == torch.float64 and implementation == "eager")
]


@pytest.mark.parametrize(("name", "dtype", "implementation"), CASES)
def test_each_layer_of_a_whole_model(name, dtype, implementation):
    case, caught = run(name, dtype, implementation)
    assert len(caught) == LAYERS
    compare(name, dtype, implementation, caught, case, **RESTRICTION[name])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
def test_bert_with_padding(dtype, implementation):
    lengths = torch.tensor([9, 4, 1])
    attention_mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    case, caught = run("bert", dtype, implementation, attention_mask=attention_mask)
    real = attention_mask.bool()
    compare("bert", dtype, implementation, caught, case, real, key_lengths=lengths)
    compare("bert", dtype, implementation, caught, case, real, mask=mhalib.masks.from_huggingface(attention_mask))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
def test_decoder_with_padding_on_the_left(name, implementation):
    """The first rows of the shorter sequences may see no key: here their weights are 0.

    Positions start at 0 in each sequence, in steps of 1, 2 and 3: a rotation does not notice a shift alone."""
    lengths = torch.tensor([9, 4, 1])
    attention_mask = (torch.arange(LENGTH) >= LENGTH - lengths[:, None]).long()
    positions = (attention_mask.cumsum(-1) - 1).clamp(min=0) * torch.tensor([[1], [2], [3]])
    case, caught = run(
        name, torch.float32, implementation, attention_mask=attention_mask, position_ids=positions, use_cache=False
    )
    options = {"causal": True, "mask": mhalib.masks.from_huggingface(attention_mask)}
    if name != "gpt2":
        options["positions"] = positions
    real = attention_mask.bool()
    compare(name, torch.float32, implementation, caught, case, real, **options)
    with torch.no_grad():
        output, weights = case.ours[0](caught[0].hidden, need_weights=True, **options)
    assert (weights.transpose(1, 2)[~real] == 0).all()
    assert torch.equal(weights.sum(-1).transpose(1, 2)[real].round(decimals=5), torch.ones(int(real.sum()), HEADS))
    bias = case.ours[0].out_proj.bias
    alone = torch.zeros(HIDDEN) if bias is None else bias
    assert torch.equal(output[~real], alone.expand(int((~real).sum()), HIDDEN))


def test_eager_code_gives_a_dead_row_weights_that_sum_to_one():
    """Why dead rows are not compared (O01, O13): a finite minimum added to a whole row hides nothing."""
    attention_mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1, 1]] * 3)
    _, caught = run("gpt2", torch.float32, "eager", attention_mask=attention_mask, use_cache=False)
    sums = caught[0].weights[:, :, :2].sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_mistral_window_counts_the_querys_own_key():
    """O20: `sliding_window=3` shows 3 keys, the query's own included, and fewer at the start."""
    case, caught = run("mistral", torch.float32, "eager")
    visible = [min(i + 1, WINDOW) for i in range(LENGTH)]
    theirs = (caught[0].weights > 0).sum(-1)
    assert theirs.tolist() == [[visible] * HEADS] * 3
    with torch.no_grad():
        _, weights = case.ours[0](caught[0].hidden, causal=True, need_weights=True)
    assert torch.equal(weights > 0, caught[0].weights > 0)
    assert mhalib.masks.window(LENGTH, LENGTH, WINDOW).sum(-1).tolist() == visible


def test_llama_shares_key_heads_in_blocks():
    """Query heads 0 and 1 read key head 0; handing them out in turn (0, 1, 0, 1) gives other numbers (O15)."""
    case, caught = run("llama", torch.float32, "eager")
    ours, seen = case.ours[0], caught[0]
    assert (ours.num_heads, ours.num_kv_heads) == (4, 2)
    with torch.no_grad():
        order = ours.q_proj.weight.view(HEADS, 12, HIDDEN)[[0, 2, 1, 3]].reshape_as(ours.q_proj.weight)
        ours.q_proj.weight.copy_(order)
        _, weights = ours(seen.hidden, causal=True, need_weights=True)
    assert (weights[:, [0, 2, 1, 3]] - seen.weights).abs().max() > 0.1


def test_llama_rows_of_the_interleaved_layout_are_another_model():
    """O17: the same weights turned in the other layout give other weights."""
    case, caught = run("llama", torch.float32, "eager")
    case.ours[0].rotary = mhalib.RotaryEmbedding(12, base=ROPE_BASE, layout="interleaved")
    with torch.no_grad():
        _, weights = case.ours[0](caught[0].hidden, causal=True, need_weights=True)
    assert (weights - caught[0].weights).abs().max() > 0.1


class Adapter(nn.Module):
    """`mhalib`'s layer where a Llama decoder layer keeps its `self_attn`."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.calls = 0

    def forward(self, hidden_states, position_ids=None, **_ignored):
        self.calls += 1
        return self.layer(hidden_states, causal=True, positions=position_ids[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
def test_llama_with_its_attention_replaced(dtype):
    """The last hidden states of the whole model, with both its attention layers exchanged for ours."""
    case = build("llama", dtype, "sdpa")
    if dtype == torch.float64:
        case.model.rotary_emb = ExactRotary(case.ours[0].head_dim)
    with torch.no_grad():
        before = case.model(input_ids=token_ids(), use_cache=False).last_hidden_state
        adapters = [Adapter(layer) for layer in case.ours]
        for layer, adapter in zip(case.model.layers, adapters, strict=True):
            layer.self_attn = adapter
        after = case.model(input_ids=token_ids(), use_cache=False).last_hidden_state
        adapters[0].layer.q_proj.weight.mul_(1.01)
        other = case.model(input_ids=token_ids(), use_cache=False).last_hidden_state
    assert [adapter.calls for adapter in adapters] == [2, 2]
    # The last norm makes rows of size 1, after two blocks and their feed-forward layers: a few times the tolerance.
    assert_close(after, before, 4 * TOLERANCE[dtype], "last hidden states")
    assert (other - before).abs().max() > 1e-3

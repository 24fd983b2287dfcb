"""The decoder equals itself written out in loops, and transformers' Llama; it leaks nothing and may decode in steps."""

import math
import re

import pytest
import torch
from torch import nn

import mhalib
from mhalib import counting
from mhalib.language import Decoder, DecoderBlock

SIZES = {"d_model": 24, "depth": 2, "num_heads": 4, "num_kv_heads": 2, "d_ff": 40}
#: Sums of 24 to 40 terms of size about 1, twice a block: far above their roundings of 1e-16.
EXACT = 1e-12


def decoder(vocab_size=30, dtype=torch.float64, **options):
    """Each matrix drawn so that every part shows; norms that are not 1."""
    torch.manual_seed(0)
    model = Decoder(vocab_size, **{**SIZES, **options}, dtype=dtype).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("embedding"):
                parameter.normal_()
            elif parameter.dim() == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
            else:
                parameter.uniform_(0.5, 1.5)
    return model


def tokens(batch=2, length=9, vocab_size=30, seed=1):
    return torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------- equal to itself written out


def by_hand(model, row, *, base=10000.0, interleaved=False, window=None, eps=1e-5):
    """Logits (L, vocab) of one text: a loop over blocks, heads and positions, from the parameters' names alone."""
    p = dict(model.named_parameters())

    def norm(x, weight):
        return torch.stack([v / torch.sqrt((v * v).sum() / len(v) + eps) * weight for v in x])

    def turn(v, position):
        out, half = v.clone(), len(v) // 2
        for i in range(half):
            one, two = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            angle = torch.tensor(position * base ** (-2 * i / len(v)), dtype=torch.float64)
            out[one] = v[one] * angle.cos() - v[two] * angle.sin()
            out[two] = v[one] * angle.sin() + v[two] * angle.cos()
        return out

    x = torch.stack([p["embedding.weight"][token] for token in row.tolist()])
    for index in range(2):
        name, n = f"blocks.{index}.", norm(x, p[f"blocks.{index}.norm1.weight"])
        q, k, v = (n @ p[name + f"attention.{part}_proj.weight"].T for part in "qkv")
        heads = []
        for head in range(4):
            own, shared = slice(head * 6, head * 6 + 6), slice(head // 2 * 6, head // 2 * 6 + 6)
            queries = [turn(q[t, own], t) for t in range(len(row))]
            keys = [turn(k[t, shared], t) for t in range(len(row))]
            made = []
            for t, query in enumerate(queries):
                seen = [s for s in range(t + 1) if window is None or s > t - window]
                weights = torch.stack([query @ keys[s] / math.sqrt(6) for s in seen]).softmax(0)
                made.append(sum(w * v[s, shared] for w, s in zip(weights, seen, strict=True)))
            heads.append(torch.stack(made))
        x = x + torch.cat(heads, dim=1) @ p[name + "attention.out_proj.weight"].T
        n = norm(x, p[name + "norm2.weight"])
        gate, up = n @ p[name + "mlp.gate_proj.weight"].T, n @ p[name + "mlp.up_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ p[name + "mlp.down_proj.weight"].T
    return norm(x, p["norm.weight"]) @ p.get("head.weight", p["embedding.weight"]).T


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ({}, {}),
        ({"tied": False}, {}),
        ({"rope_base": 500.0}, {"base": 500.0}),
        ({"rope_layout": "interleaved"}, {"interleaved": True}),
        ({"window": 3}, {"window": 3}),
        ({"norm_eps": 0.1}, {"eps": 0.1}),
    ],
    ids=str,
)
def test_the_decoder_equals_itself_by_hand(options, how):
    model, rows = decoder(**options), tokens()
    with torch.no_grad():
        logits = model(rows)
        for row, ours in zip(rows, logits, strict=True):
            assert torch.allclose(ours, by_hand(model, row, **how), rtol=0, atol=EXACT)
    assert logits.std() > 0.5


@pytest.mark.parametrize("tied", [True, False])
def test_the_decoder_equals_transformers_llama(tied):
    transformers = pytest.importorskip("transformers")
    ours = decoder(dtype=torch.float32, head_dim=12, rope_base=5000.0, tied=tied)
    config = transformers.LlamaConfig(
        vocab_size=30,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        intermediate_size=40,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    theirs = transformers.LlamaForCausalLM(config).eval()
    names = {
        "embedding": "model.embed_tokens",
        "head": "lm_head",
        "norm": "model.norm",
        "attention": "self_attn",
        "out_proj": "o_proj",
        "norm1": "input_layernorm",
        "norm2": "post_attention_layernorm",
        "blocks": "model.layers",
    }
    state = {}
    for name, parameter in ours.state_dict().items():
        state[".".join(names.get(part, part) for part in name.split("."))] = parameter
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert unexpected == []
    assert missing == (["lm_head.weight"] if tied else [])
    theirs.tie_weights()
    with torch.no_grad():
        expected = theirs(tokens()).logits
        error = (ours(tokens()) - expected).abs().max().item()
    assert error < 1e-5, error  # their rotary angles are float32
    assert expected.std() > 0.5


# ------------------------------------------------------------------------------------------------ behaviour


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"d_ff": 0}], ids=str)
def test_no_position_sees_what_comes_later(options):
    model, rows = decoder(**options), tokens(1, 9)
    with torch.no_grad():
        before = model(rows)
        for place in range(9):
            other = rows.clone()
            other[0, place] = (other[0, place] + 1) % 30
            changed = (model(other) - before).abs().amax(-1)[0]
            assert (changed[:place] == 0).all()
            assert changed[place] > 1e-3


@pytest.mark.parametrize("options", [{}, {"window": 3}, {"rope_layout": "interleaved"}, {"num_kv_heads": 1}], ids=str)
@pytest.mark.parametrize("chunk", [1, 2, 3])
@torch.no_grad()
def test_decoding_with_caches_equals_one_pass(options, chunk):
    model, rows = decoder(**options), tokens()
    caches, parts = model.new_caches(2, 9), [rows[:, :4], *rows[:, 4:].split(chunk, dim=1)]
    assert type(caches[0]) is (mhalib.RollingKVCache if "window" in options else mhalib.KVCache)
    steps = torch.cat([model(part, caches=caches) for part in parts], dim=1)
    assert torch.allclose(steps, model(rows), rtol=0, atol=EXACT)
    assert [cache.length for cache in caches] == [9, 9]


@torch.no_grad()
def test_the_last_scores_alone_are_those_of_all():
    model, rows = decoder(), tokens()
    full = model(rows)
    for last in (1, 3, 9):
        part = model(rows, last=last)
        assert part.shape == (2, last, 30)
        assert torch.allclose(part, full[:, -last:], rtol=0, atol=EXACT)


@torch.no_grad()
def test_maps_are_those_of_each_block():
    model, rows = decoder(), tokens()
    logits, maps = model(rows, need_weights=True)
    assert maps.shape == (2, 2, 4, 9, 9)
    assert torch.allclose(maps.sum(-1), torch.ones(2, 2, 4, 9).double())
    assert torch.allclose(logits, model(rows), rtol=0, atol=EXACT)
    x = model.embedding(rows)
    for index, block in enumerate(model.blocks):
        x, weights = block(x, need_weights=True)
        assert torch.equal(weights, maps[:, index])


@torch.no_grad()
def test_padding_and_positions_reach_every_layer():
    model, rows = decoder(), tokens()
    alone = model(rows[:1, :5])
    padded = model(rows, key_lengths=torch.tensor([5, 9]))
    assert torch.allclose(padded[:1, :5], alone, rtol=0, atol=EXACT)
    mask = torch.ones(9, 9, dtype=torch.bool)
    mask[:, 0] = False
    mask[0, 0] = True
    shifted = model(rows, mask=mask, positions=torch.arange(9) + 5)  # rotary scores know distances alone
    assert torch.allclose(shifted, model(rows, mask=mask), rtol=0, atol=1e-11)
    spread = model(rows, positions=2 * torch.arange(9))
    assert (spread - model(rows)).abs().max() > 0.1


def test_dropout_acts_in_training_alone():
    model, plain = decoder(dropout=0.5), decoder()
    assert torch.equal(model(tokens()), plain(tokens()))
    model.train()
    assert not torch.allclose(model(tokens()), model(tokens()))


def test_parameters_are_those_that_are_counted():
    sizes = {"d_model": 24, "num_heads": 4, "num_kv_heads": 2}
    block = counting.attention_parameters(**sizes) + counting.mlp_parameters(24, 40, gated=True) + 2 * 24
    assert counting.module_parameters(decoder()) == 30 * 24 + 2 * block + 24
    assert counting.module_parameters(decoder(tied=False)) == 2 * 30 * 24 + 2 * block + 24
    bare = counting.attention_parameters(**sizes) + 24
    assert counting.module_parameters(decoder(d_ff=0)) == 30 * 24 + 2 * bare + 24
    assert Decoder(5, d_model=64, depth=1, num_heads=4).blocks[0].mlp.gate_proj.out_features == 176  # 170.7


def test_a_published_model_has_its_number_of_parameters():
    """SmolLM2-135M: 30 layers of 576 channels, 9 query and 3 key heads, 49,152 tokens."""
    with torch.device("meta"):
        model = Decoder(49152, d_model=576, depth=30, num_heads=9, num_kv_heads=3, d_ff=1536)
    assert counting.module_parameters(model) == 134_515_008


def test_a_tied_table_is_one_parameter_and_stays_tied_when_assigned():
    model = decoder()
    with torch.device("meta"):
        other = Decoder(30, **SIZES).eval()
    other.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(other(tokens()), model(tokens()))
    assert [name for name in model.state_dict() if "head" in name] == []
    with torch.no_grad():
        other.embedding.weight.zero_()
    assert (other(tokens()) == 0).all()


def test_the_start_is_small_and_smaller_where_the_residual_stream_is_written():
    torch.manual_seed(0)
    model = Decoder(300, d_model=96, depth=8, num_heads=4)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == 1).all()
        else:
            writes = "out_proj" in name or "down_proj" in name
            assert parameter.std().item() == pytest.approx(0.02 / 4 if writes else 0.02, rel=0.1), name
    read, others = tokens(vocab_size=300), tokens(vocab_size=300, seed=2)
    loss = nn.functional.cross_entropy(model(read).flatten(0, 1), others.flatten())
    assert loss.item() == pytest.approx(math.log(300), rel=0.05)  # knows nothing: as if each of 300 were as likely


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda m: m(tokens().double()), TypeError, "tokens: got torch.float64; accepted is an integer tensor"),
        (lambda m: m(tokens()[0]), ValueError, "tokens: got shape (9,); accepted is (B, L); one text is tokens[None]"),
        (lambda m: m(tokens() + 30), ValueError, "; accepted are numbers from 0 to 29"),
        (lambda m: m(-tokens() - 1), ValueError, "; accepted are numbers from 0 to 29"),
        (lambda m: m([[1, 2]]), TypeError, "tokens: got list; accepted is a tensor"),
        (lambda m: m(tokens(), caches=[]), ValueError, "caches: got 0; accepted is one for each of the 2 blocks"),
        (lambda m: m(tokens(), last=10), ValueError, "last: got 10 for 9 tokens; accepted is at most their number"),
        (lambda m: m(tokens(), last=0), ValueError, "last: got 0; accepted is an integer of at least 1"),
        (lambda m: Decoder(30, **SIZES, tied=1), TypeError, "tied: got 1; accepted are True and False"),
        (lambda m: Decoder(30, **{**SIZES, "d_ff": -1}), ValueError, "d_ff: got -1; accepted is an integer of at"),
        (lambda m: Decoder(0, **SIZES), ValueError, "vocab_size: got 0; accepted is an integer of at least 1"),
        (lambda m: Decoder(30, **{**SIZES, "num_heads": 5}), ValueError, "num_heads: got 5 for d_model=24; accepted"),
        (lambda m: DecoderBlock(24, 4, 8, dropout=1.0), ValueError, "dropout: got 1.0; accepted is a probability"),
    ],
)
def test_wrong_input_is_refused(call, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        call(decoder())

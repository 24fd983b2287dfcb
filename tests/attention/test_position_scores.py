"""What positions add to scores: each formula in loops, in float64; `transformers` where it has the same thing."""

import pytest
import torch
from oracle import normal
from transformers import DebertaV2Config, T5Config
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention
from transformers.models.t5.modeling_t5 import T5Attention

import mhalib
from mhalib.positions import (
    PositionTable,
    T5Bias,
    alibi_bias,
    alibi_slopes,
    axial_bias,
    clipped_distances,
    disentangled_scores,
    distances,
    shaw_scores,
    shaw_values,
    t5_bucket,
)

#: Sums of up to 40 products of size 1 in float64.
EXACT = 1e-13
LENGTHS = [(1, 1), (5, 5), (3, 7), (1, 6), (6, 4), (0, 3), (2, 0)]


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(("lq", "lk"), LENGTHS)
def test_distances_stand_where_the_causal_mask_stands(lq, lk):
    got = distances(lq, lk)
    assert got.shape == (lq, lk)
    assert got.dtype == torch.int64
    assert torch.equal(got <= 0, mhalib.masks.causal(lq, lk))
    assert got.tolist() == [[j - (i + lk - lq) for j in range(lk)] for i in range(lq)]


@pytest.mark.parametrize("num_heads", [1, 4, 6])
@pytest.mark.parametrize(("lq", "lk"), LENGTHS)
def test_alibi_bias_is_slope_times_distance(lq, lk, num_heads):
    got = alibi_bias(num_heads, lq, lk)
    assert got.shape == (1, num_heads, lq, lk)
    slopes = alibi_slopes(num_heads).tolist()
    want = [[[slope * (j - i - lk + lq) for j in range(lk)] for i in range(lq)] for slope in slopes]
    torch.testing.assert_close(got[0], torch.tensor(want).view(num_heads, lq, lk), rtol=1e-6, atol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_bias_is_that_of_transformers(bidirectional):
    config = T5Config(d_model=12, num_heads=3, d_kv=4, relative_attention_num_buckets=8, is_decoder=not bidirectional)
    config.relative_attention_max_distance = 20
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5Bias(3, num_buckets=8, max_distance=20, bidirectional=bidirectional)
    ours.table.data.copy_(theirs.relative_attention_bias.weight)
    assert torch.equal(ours(30, 30), theirs.compute_bias(30, 30))
    assert torch.equal(ours(2, 30), theirs.compute_bias(30, 30)[:, :, -2:])
    assert ours.table.numel() == 8 * 3


def test_t5_bias_sends_gradients_to_the_buckets_that_occur():
    bias = T5Bias(2, num_buckets=8, max_distance=20, bidirectional=False)
    bias(3, 3).sum().backward()
    assert bias.table.grad[:, 0].tolist() == [6, 2, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("reach", [1, 2, 9])
@pytest.mark.parametrize(("lq", "lk"), LENGTHS)
def test_shaw_by_loops(lq, lk, reach):
    query, weights = normal(2, 3, lq, 4, seed=1), normal(2, 3, lq, lk, seed=2)
    keys, values = normal(2 * reach + 1, 4, seed=3), normal(2 * reach + 1, 5, seed=4)
    scores, added = torch.zeros(2, 3, lq, lk).double(), torch.zeros(2, 3, lq, 5).double()
    for b in range(2):
        for h in range(3):
            for i in range(lq):
                for j in range(lk):
                    row = max(-reach, min(reach, j - (i + lk - lq))) + reach
                    scores[b, h, i, j] = 0.5 * dot(query[b, h, i], keys[row])
                    added[b, h, i] += weights[b, h, i, j] * values[row]
    torch.testing.assert_close(shaw_scores(query, keys, lk), scores, rtol=0, atol=EXACT)
    torch.testing.assert_close(shaw_scores(query, keys, lk, scale=1.5), 3 * scores, rtol=0, atol=EXACT)
    torch.testing.assert_close(shaw_values(weights, values), added, rtol=0, atol=EXACT)


def test_attention_with_shaw_is_the_equation_of_the_paper():
    """e_ij = q_i · (k_j + a_ij) / √D, z_i = Σ_j α_ij (v_j + b_ij), with all L² D numbers of a and b written out."""
    query, key, value = (normal(2, 2, 6, 4, seed=seed) for seed in (5, 6, 7))
    keys, values = normal(7, 4, seed=8), normal(7, 4, seed=9)
    row = clipped_distances(6, 6, 3)
    raw = torch.einsum("bhid,bhijd->bhij", query, key[:, :, None] + keys[row]) / 2
    alpha = raw.softmax(-1)
    want = torch.einsum("bhij,bhijd->bhid", alpha, value[:, :, None] + values[row])
    bias = shaw_scores(query, keys, 6)
    output, weights = mhalib.attention(query, key, value, bias=bias, return_weights=True)
    torch.testing.assert_close(weights, alpha, rtol=0, atol=EXACT)
    torch.testing.assert_close(output + shaw_values(weights, values), want, rtol=0, atol=EXACT)


@pytest.mark.parametrize("reach", [1, 3])
@pytest.mark.parametrize(("lq", "lk"), LENGTHS)
def test_disentangled_by_loops(lq, lk, reach):
    query, key = normal(2, 2, lq, 3, seed=1), normal(2, 2, lk, 3, seed=2)
    relative_query, relative_key = normal(2, 2 * reach, 3, seed=3), normal(2, 2 * reach, 3, seed=4)
    want = torch.zeros(2, 2, lq, lk).double()
    for b in range(2):
        for h in range(2):
            for i in range(lq):
                for j in range(lk):
                    row = max(0, min(2 * reach - 1, i + lk - lq - j + reach))
                    want[b, h, i, j] += dot(query[b, h, i], relative_key[h, row])
                    want[b, h, i, j] += dot(relative_query[h, row], key[b, h, j])
    got = disentangled_scores(query, key, relative_query, relative_key)
    torch.testing.assert_close(got, want / 3, rtol=0, atol=EXACT)
    got = disentangled_scores(query, key, relative_query, relative_key, scale=2.0)
    torch.testing.assert_close(got, want * 2, rtol=0, atol=EXACT)


def test_disentangled_is_deberta_v2_of_transformers():
    reach, heads, dim, length = 4, 3, 8, 11
    config = DebertaV2Config(
        hidden_size=heads * dim,
        num_attention_heads=heads,
        relative_attention=True,
        max_relative_positions=reach,
        position_buckets=-1,
        pos_att_type=["c2p", "p2c"],
        share_att_key=False,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    torch.manual_seed(0)
    theirs = DisentangledSelfAttention(config).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x, table = normal(1, length, heads * dim, seed=1), normal(2 * reach, heads * dim, seed=2)
    with torch.no_grad():
        want = theirs(x, torch.ones(1, 1, length, length), output_attentions=True, rel_embeddings=table)[1]
        parts = (theirs.query_proj(x), theirs.key_proj(x), theirs.pos_query_proj(table), theirs.pos_key_proj(table))
        query, key, *relative = (part.view(-1, heads, dim).transpose(0, 1) for part in parts)
        query, key = query[None], key[None]
        bias = disentangled_scores(query, key, *relative)
        _, got = mhalib.attention(query, key, key, bias=bias, scale=(3 * dim) ** -0.5, return_weights=True)
    # transformers takes the root of 3 D in float32.
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=1e-6)
    assert (got[0] - mhalib.attention(query, key, key, return_weights=True)[1][0]).abs().max() > 0.1


@pytest.mark.parametrize("rank", [None, 1, 3])
@pytest.mark.parametrize(("lq", "lk"), [(1, 1), (5, 5), (2, 4), (0, 3)])
def test_a_table_of_positions_takes_its_rows_from_the_end(lq, lk, rank):
    torch.manual_seed(1)
    table = PositionTable(2, 5, rank=rank, dtype=torch.float64)
    factors = (table.query_factors, table.key_factors)
    whole = (table.scores if rank is None else torch.einsum("hik,hjk->hij", *factors)).detach()
    want = [[[float(whole[h, i + lk - lq, j]) for j in range(lk)] for i in range(lq)] for h in range(2)]
    expected = torch.tensor(want, dtype=torch.float64).view(1, 2, lq, lk)
    torch.testing.assert_close(table(lq, lk), expected, rtol=0, atol=EXACT)
    assert sum(p.numel() for p in table.parameters()) == (2 * 25 if rank is None else 2 * 2 * 5 * rank)


@pytest.mark.parametrize("rank", [None, 1, 4, 40])
def test_the_scores_of_a_table_start_with_one_size(rank):
    torch.manual_seed(0)
    scores = PositionTable(8, 64, rank=rank)(64, 64)
    assert 0.07 < scores.std() < 0.13


def test_positional_attention_reads_no_content():
    """The reference is softmax(table) · values. As queries and keys, the factors give the same."""
    torch.manual_seed(0)
    table = PositionTable(2, 6, rank=3, dtype=torch.float64)
    value, zeros = normal(2, 2, 6, 4, seed=1), torch.zeros(2, 2, 6, 4).double()
    want = table(6, 6).softmax(-1) @ value
    torch.testing.assert_close(mhalib.attention(zeros, zeros, value, bias=table(6, 6)), want, rtol=0, atol=EXACT)
    query, key = (x.expand(2, -1, -1, -1) for x in (table.query_factors, table.key_factors))
    torch.testing.assert_close(mhalib.attention(query, key, value, scale=1.0), want, rtol=0, atol=EXACT)


@pytest.mark.parametrize(("down", "across"), [(1, 1), (3, 4), (5, 2)])
def test_axial_bias_by_loops(down, across):
    rows, columns = normal(2, down, down, seed=1), normal(2, across, across, seed=2)
    got = axial_bias(rows, columns)
    assert got.shape == (1, 2, down * across, down * across)
    for h in range(2):
        for query in range(down * across):
            for key in range(down * across):
                y, x, y_key, x_key = query // across, query % across, key // across, key % across
                assert got[0, h, query, key] == rows[h, y, y_key] + columns[h, x, x_key]


def test_attention_under_an_axial_bias_is_a_pass_over_rows_and_one_over_columns():
    rows, columns, value = normal(2, 3, 3, seed=1), normal(2, 4, 4, seed=2), normal(1, 2, 12, 5, seed=3)
    zeros = torch.zeros(1, 2, 12, 1).double()
    along = columns.softmax(-1)[:, None] @ value[0].unflatten(1, (3, 4))  # (H, y, x, Dv)
    want = torch.einsum("hij,hjxd->hixd", rows.softmax(-1), along).flatten(1, 2)
    got = mhalib.attention(zeros, zeros, value, bias=axial_bias(rows, columns))
    torch.testing.assert_close(got[0], want, rtol=0, atol=EXACT)


def test_only_distances_enter():
    """Later queries of a longer sequence get the same numbers at the same distances."""
    query, key = normal(1, 2, 9, 4, seed=1), normal(1, 2, 9, 4, seed=2)
    shaw, relative = normal(7, 4, seed=3), normal(2, 6, 4, seed=4)
    makers = {
        "ALiBi": lambda q, k: alibi_bias(2, q.shape[2], k.shape[2]),
        "T5": lambda q, k: T5Bias(2).requires_grad_(False)(q.shape[2], k.shape[2]),
        "Shaw": lambda q, k: shaw_scores(q, shaw, k.shape[2]),
        "disentangled": lambda q, k: disentangled_scores(q, k, relative, relative),
    }
    for name, make in makers.items():
        torch.manual_seed(0)
        whole = make(query, key)
        torch.manual_seed(0)
        part = make(query[:, :, 4:7], key[:, :, 2:7])
        torch.testing.assert_close(part, whole[:, :, 4:7, 2:7], rtol=0, atol=EXACT, msg=name)


X, TABLE = torch.zeros(2, 2, 3, 4), torch.zeros(5, 4)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: distances(-1, 3), ValueError, "lq: got -1; accepted is an integer of at least 0"),
        (lambda: clipped_distances(3, 3, 0), ValueError, "reach: got 0; accepted is an integer of at least 1"),
        (lambda: alibi_bias(0, 3, 3), ValueError, "num_heads: got 0"),
        (lambda: T5Bias(0), ValueError, "num_heads: got 0"),
        (lambda: T5Bias(2, num_buckets=6), ValueError, "num_buckets, max_distance: got 6 and 128"),
        (lambda: T5Bias(2, bidirectional=1), TypeError, "bidirectional: got"),
        (lambda: shaw_scores(X[0], TABLE, 3), ValueError, r"query: got shape \(2, 3, 4\); .*four dimensions"),
        (lambda: shaw_scores(X, TABLE[:4], 3), ValueError, r"table: got shape \(4, 4\); .*an odd number of rows"),
        (lambda: shaw_scores(X, TABLE[:, :2], 3), ValueError, r"table: got shape \(5, 2\); .*\(2 \* reach \+ 1, 4\)"),
        (lambda: shaw_scores(X, TABLE[:1], 3), ValueError, r"table: got shape \(1, 4\)"),
        (lambda: shaw_scores(X, [1], 3), TypeError, "table: got list; accepted is a tensor"),
        (lambda: shaw_scores(X, TABLE, 3, scale="2"), TypeError, "scale: got str '2'"),
        (lambda: shaw_values(X[0], TABLE), ValueError, "weights: got shape"),
        (lambda: shaw_values(X, TABLE[0]), ValueError, "table: got shape"),
        (
            lambda: disentangled_scores(X, X[:, :1], X[0, :, :2], X[0, :, :2]),
            ValueError,
            r"key: got shape \(2, 1, 3, 4\); accepted is \(2, 2, Lk, 4\)",
        ),
        (
            lambda: disentangled_scores(X, X, X[0, :, :2], X[0]),
            ValueError,
            r"relative_query: got shape \(2, 2, 4\); accepted is \(2, 2 \* reach, 4\)",
        ),
        (lambda: disentangled_scores(X, X, X[0], X[0]), ValueError, r"relative_query: got shape \(2, 3, 4\)"),
        (lambda: PositionTable(2, 0), ValueError, "max_length: got 0"),
        (lambda: PositionTable(2, 4, rank=0), ValueError, "rank: got 0"),
        (lambda: PositionTable(2, 4)(5, 5), ValueError, "lq, lk: got 5 and 5; accepted are lq ≤ lk ≤ 4"),
        (lambda: PositionTable(2, 4)(3, 2), ValueError, "lq, lk: got 3 and 2"),
        (lambda: axial_bias(X[0], X[0, :, :, :3]), ValueError, r"rows: got shape \(2, 3, 4\); accepted is \(H, n, n\)"),
        (lambda: axial_bias(X[0, :, :, :3], X[0, :1, :, :3]), ValueError, r"columns: got shape \(1, 3, 3\)"),
    ],
)
def test_refusals_name_the_argument_what_came_and_what_is_accepted(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_distances_of_t5_are_keys_minus_queries():
    bias = T5Bias(1, num_buckets=8, max_distance=20)
    bias.table.data = torch.arange(8.0)[:, None]
    assert torch.equal(bias(4, 4)[0, 0], t5_bucket(distances(4, 4), num_buckets=8, max_distance=20).float())

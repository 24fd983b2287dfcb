"""A Vision Transformer here is what the paper's equations say: patches, tokens, blocks, logits, maps."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mhalib import vision

#: Sums of at most some hundred products of size 1, each rounded to 1.1e-16.
EXACT = 1e-12


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shaken(module, std=0.4):
    """The module in float64, every parameter drawn anew: a lost bias or a norm left out shows."""
    module = module.double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def model(image_size=(6, 15), patch_size=(2, 5), **options):
    options = dict(in_channels=2, num_classes=5, d_model=12, depth=3, num_heads=3, mlp_ratio=2.5) | options
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return shaken(vision.VisionTransformer(image_size, patch_size, **options))


sizes = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), *[st.integers(1, 4)] * 2)


@settings(max_examples=40, deadline=None)
@given(sizes)
def test_each_pixel_of_a_patch_is_where_the_docstring_says(size):
    batch, channels, rows, columns, height, width = size
    images = torch.arange(batch * channels * rows * height * columns * width, dtype=torch.float64)
    images = images.reshape(batch, channels, rows * height, columns * width)
    patches = vision.cut_patches(images, (height, width))
    assert patches.shape == (batch, rows * columns, channels * height * width)
    for n in range(rows * columns):
        row, column = n // columns, n % columns
        part = images[:, :, row * height : (row + 1) * height, column * width : (column + 1) * width]
        assert torch.equal(patches[:, n], part.reshape(batch, -1))


@pytest.mark.parametrize(("image_size", "patch_size"), [(8, 2), ((6, 15), (2, 5)), ((4, 12), (4, 1)), (5, 5), (7, 1)])
def test_embedding_is_unfold_and_a_matrix_and_a_strided_convolution(image_size, patch_size):
    embedding = shaken(vision.PatchEmbedding(image_size, patch_size, 3, 7))
    images = drawn(2, 3, *embedding.image_size)
    weight, bias = embedding.projection.weight, embedding.projection.bias
    columns = nn.functional.unfold(images, embedding.patch_size, stride=embedding.patch_size)  # (B, C · h · w, N)
    by_unfold = torch.einsum("bfn,df->bnd", columns, weight.flatten(1)) + bias
    by_convolution = nn.functional.conv2d(images, weight, bias, stride=embedding.patch_size)
    tokens = embedding(images)
    assert tokens.shape == (2, embedding.num_patches, 7)
    assert (tokens - by_unfold).abs().max() < EXACT
    assert (tokens - by_convolution.flatten(2).transpose(1, 2)).abs().max() < EXACT
    by_cutting = vision.cut_patches(images, embedding.patch_size) @ weight.flatten(1).T + bias
    assert (tokens - by_cutting).abs().max() < EXACT


def test_images_that_are_views_give_the_same():
    embedding = shaken(vision.PatchEmbedding((6, 4), 2, 3, 5))
    images = drawn(2, 4, 6, 3).permute(0, 3, 2, 1)
    assert not images.is_contiguous()
    assert (embedding(images) - embedding(images.contiguous())).abs().max() < EXACT
    assert torch.equal(vision.cut_patches(images, 2), vision.cut_patches(images.contiguous(), 2))


def by_hand(net, images):
    """Logits and maps of one image after another, token by token and head by head, from the paper's equations."""
    logits, maps = [], []
    for image in images:
        tokens, seen = tokens_by_hand(net, image), []
        for block in net.blocks:
            tokens, weights = block_by_hand(block, tokens, net.blocks[0].attention.num_heads)
            seen.append(weights)
        logits.append(net.head.weight @ norm_by_hand(net.norm, tokens[0]) + net.head.bias)
        maps.append(torch.stack(seen))
    return torch.stack(logits), torch.stack(maps)


def tokens_by_hand(net, image):
    (height, width), (down, across) = net.patch_embedding.patch_size, net.grid
    projection, place = net.patch_embedding.projection, net.position_embedding[0]
    tokens = [net.class_token[0, 0] + place[0]]
    tokens += [] if net.registers is None else list(net.registers[0])
    for n in range(down * across):
        top, left = n // across * height, n % across * width
        pixels = image[:, top : top + height, left : left + width].reshape(-1)
        tokens.append(projection.weight.flatten(1) @ pixels + projection.bias + place[1 + n])
    return torch.stack(tokens)


def norm_by_hand(norm, token):
    centred = token - token.mean()
    return centred / (centred.pow(2).mean() + norm.eps).sqrt() * norm.weight + norm.bias


def block_by_hand(block, tokens, num_heads):
    attention = block.attention
    normed = torch.stack([norm_by_hand(block.norm1, token) for token in tokens])
    query, key, value = (
        normed @ part.weight.T + part.bias for part in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    size, outputs, weights = tokens.shape[1] // num_heads, [], []
    for head in range(num_heads):
        channels = slice(head * size, (head + 1) * size)
        scores = query[:, channels] @ key[:, channels].T / size**0.5
        odds = (scores - scores.max()).exp()
        weights.append(odds / odds.sum(1, keepdim=True))
        outputs.append(weights[-1] @ value[:, channels])
    tokens = tokens + torch.cat(outputs, 1) @ attention.out_proj.weight.T + attention.out_proj.bias
    up, down = block.mlp[0], block.mlp[2]
    result = []
    for token in tokens:
        inner = up.weight @ norm_by_hand(block.norm2, token) + up.bias
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
        result.append(token + down.weight @ inner + down.bias)
    return torch.stack(result), torch.stack(weights)


@pytest.mark.parametrize("num_registers", [0, 2])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "factorised", None])
def test_the_whole_model_is_the_equations_by_hand(positions, num_registers):
    net = model(positions=positions, num_registers=num_registers)
    images = drawn(3, 2, 6, 15)
    logits, maps = net(images, need_weights=True)
    expected_logits, expected_maps = by_hand(net, images)
    length = 1 + num_registers + 9
    assert maps.shape == (3, 3, 3, length, length)
    assert (logits - expected_logits).abs().max() < EXACT
    assert (maps - expected_maps).abs().max() < EXACT
    assert expected_maps.std(-1).min() > 1e-3, "the maps are flat: the comparison says nothing"
    assert (net(images) - expected_logits).abs().max() < EXACT


def test_what_the_design_promises_of_the_parts():
    net = model()
    images = drawn(2, 2, 6, 15)
    assert net.class_token.shape == (1, 1, 12)
    assert net.position_embedding.shape == (1, 10, 12)
    tokens = net.embed(images)
    assert tokens.shape == (2, 10, 12)
    patches = net.patch_embedding(images)
    assert torch.equal(tokens[:, 1:], patches + net.position_embedding[:, 1:])
    run, maps = net.run_blocks(tokens, need_weights=True)
    logits = net.classify(run)
    assert torch.equal(logits, net(images, need_weights=True)[0])
    assert torch.equal(maps, net(images, need_weights=True)[1])
    assert net.run_blocks(tokens)[1] is None


def test_a_block_from_its_first_norm_on_is_the_block():
    block = model().blocks[1]
    tokens = drawn(2, 10, 12)
    output, weights = block(tokens, need_weights=True)
    again, same = block.after_norm1(tokens, block.norm1(tokens), need_weights=True)
    assert torch.equal(output, again)
    assert torch.equal(weights, same)
    other, _ = block.after_norm1(tokens, block.norm1(tokens) + 1.0)
    assert (other - output).abs().max() > 1e-3, "attention does not read what it is given"


def test_positions_are_all_that_tells_one_order_of_the_patches_from_another():
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    images = drawn(2, 2, 6, 15)
    grid = vision.cut_patches(images, (2, 5))[:, order].reshape(2, 3, 3, 2, 2, 5)
    shuffled = grid.permute(0, 3, 1, 4, 2, 5).reshape(2, 2, 6, 15)
    without, with_positions = model(positions=None), model()
    assert (without(images) - without(shuffled)).abs().max() < EXACT
    assert (with_positions(images) - with_positions(shuffled)).abs().max() > 1e-2


def test_empty_batch_and_one_patch():
    logits, maps = model()(drawn(0, 2, 6, 15), need_weights=True)
    assert logits.shape == (0, 5)
    assert maps.shape == (0, 3, 3, 10, 10)
    logits, maps = model(image_size=(2, 5))(drawn(2, 2, 2, 5), need_weights=True)
    assert logits.shape == (2, 5)
    assert maps.shape == (2, 3, 3, 2, 2)


def test_every_parameter_has_a_gradient():
    for options in ({}, {"positions": "factorised", "num_registers": 3}):
        net = model(**options)
        net(drawn(2, 2, 6, 15)).pow(2).sum().backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None, name
            # A bias of the keys moves all scores of a row alike; softmax does not see it.
            assert name.endswith("k_proj.bias") or parameter.grad.abs().max() > 1e-8, name


def test_fused_attention_gives_the_logits_that_the_maps_explain():
    images = drawn(2, 2, 6, 15)
    for backend in ("auto", "sdpa", "tiled", "reference"):
        assert (model(backend=backend)(images) - model()(images, need_weights=True)[0]).abs().max() < EXACT
    for backend in ("sdpa", "tiled"):
        with pytest.raises(ValueError, match="backend"):
            model(backend=backend)(images, need_weights=True)


def test_parameter_count_of_the_digits_model_and_of_vit_b16():
    def count(net):
        return sum(parameter.numel() for parameter in net.parameters())

    shape = dict(in_channels=1, num_classes=10, d_model=48, depth=3, num_heads=4, mlp_ratio=2)
    assert count(vision.VisionTransformer(8, 2, **shape)) == 58570
    with torch.device("meta"):  # 86,567,656: ViT-B/16 at 224 pixels with 1000 classes, as published
        base = vision.VisionTransformer(224, 16, num_classes=1000, d_model=768, depth=12, num_heads=12)
    assert count(base) == 86567656
    assert base.patch_embedding.num_patches == 196


def test_a_model_can_be_saved_and_read_back():
    first, images = model(positions="factorised", num_registers=1), drawn(2, 2, 6, 15)
    second = model(positions="factorised", num_registers=1)
    with torch.no_grad():
        second.class_token += 1
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(images), second(images))

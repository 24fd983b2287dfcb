"""How exact float32 is as three TF32 products, worked out on the CPU: the interpreter has no TF32, so rounding is done
here by hand, as the instruction cvt.rna.tf32.f32 does it."""

import pytest
import torch
from oracle import normal

from mhalib.backends.triton import configs


def tf32(x):
    """Rounded to the 10 bits of mantissa that TF32 keeps, to nearest."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def once(a, b):
    return tf32(a) @ tf32(b)


def three_times(a, b):
    """What `tf32x3` stands for: the large parts, and each large part with the other's small one; sums in float32."""
    (large_a, small_a), (large_b, small_b) = ((tf32(x), tf32(x - tf32(x))) for x in (a, b))
    return large_a @ small_b + small_a @ large_b + large_a @ large_b


def attention(query, key, value, grad, product):
    """Output and the three gradients, with every product taken by `product`."""
    scale = query.shape[-1] ** -0.5
    weights = torch.softmax(product(query, key.mT) * scale, -1)
    output = product(weights, value)
    slopes = weights * (product(grad, value.mT) - (grad * output).sum(-1, keepdim=True)) * scale
    return output, product(slopes, key), product(slopes.mT, query), product(weights.mT, grad)


def test_a_product_of_two_numbers_is_off_by_three_parts_in_2_to_the_22():
    a, b = (normal(400_000, 1, 1, seed=n, dtype=torch.float32) for n in (1, 2))
    (large_a, small_a), (large_b, small_b) = ((tf32(x), tf32(x - tf32(x))) for x in (a, b))
    parts = [x.double() for x in (large_a, small_a, large_b, small_b)]
    got = parts[0] * parts[2] + parts[0] * parts[3] + parts[1] * parts[2]
    exact = a.double() * b.double()
    worst = ((got - exact).abs() / exact.abs()).max().item()
    assert 2**-23 < worst < 3 * 2**-22


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("steep", [1.0, 5.0])
def test_attention_in_three_products_is_nearly_as_exact_as_in_float32(dim, steep):
    """And in one, which is triton's default, five hundred times less so."""
    tensors = [normal(512, dim, seed=n, dtype=torch.float32) for n in range(4)]
    tensors[0] = tensors[0] * steep
    exact = attention(*(x.double() for x in tensors), torch.matmul)

    def errors(product):
        got = attention(*tensors, product)
        return [((x.double() - y).norm() / y.norm()).item() for x, y in zip(got, exact, strict=True)]

    plain, three, one = errors(torch.matmul), errors(three_times), errors(once)
    print(f"head size {dim}, queries times {steep:g}: float32 {plain}, three {three}, one {one}")
    for in_float32, in_three, in_one in zip(plain, three, one, strict=True):
        assert in_three < max(4 * in_float32, 1e-6)
        assert in_one > 100 * in_three


def test_float32_takes_three_products_where_a_chip_has_the_instruction():
    assert configs.precision_of(75, torch.float32) == "ieee"
    assert {configs.precision_of(chip, torch.float32) for chip in (80, 86, 89, 90, 100, 120)} == {"tf32x3"}
    assert configs.precision_of(90, torch.float16) == "ieee"
    assert configs.precision(torch.empty(1)) == "ieee"

"""Position vectors: what each kind is made of, and that they move to another grid without a slip."""

import math

import pytest
import torch
from test_vision import drawn, model, shaken

import mhalib
from mhalib.vision.positions import FactorisedPositions, LearnedPositions, SinusoidalPositions, interpolate_positions

#: Interpolation adds 16 products of size 1; here are some more, each rounded to 1.1e-16.
EXACT = 1e-12
GRIDS = [((3, 5), (6, 10)), ((3, 5), (5, 3)), ((4, 4), (7, 3)), ((5, 2), (2, 5)), ((1, 4), (3, 9)), ((6, 6), (1, 1))]


def cubic(distance, a=-0.75):
    """The weight of a point at this distance; `a` as in torch, OpenCV and Pillow's older code."""
    t = abs(distance)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def interpolated_by_loops(places, new_grid):
    """(down, across, d) → (new_down, new_across, d): 4 × 4 neighbours of each place, the border repeated."""
    (down, across, _), (new_down, new_across) = places.shape, new_grid
    result = torch.zeros(*new_grid, places.shape[2], dtype=places.dtype)
    for i in range(new_down):
        y = (i + 0.5) * down / new_down - 0.5
        for j in range(new_across):
            x = (j + 0.5) * across / new_across - 0.5
            for row in range(math.floor(y) - 1, math.floor(y) + 3):
                for column in range(math.floor(x) - 1, math.floor(x) + 3):
                    inside = places[min(max(row, 0), down - 1), min(max(column, 0), across - 1)]
                    result[i, j] += cubic(y - row) * cubic(x - column) * inside
    return result


@pytest.mark.parametrize(("grid", "new_grid"), GRIDS)
@pytest.mark.parametrize("num_prefix", [0, 1, 3])
def test_interpolation_is_the_cubic_by_loops(grid, new_grid, num_prefix):
    table = drawn(1, num_prefix + grid[0] * grid[1], 3)
    moved = interpolate_positions(table, grid, new_grid, num_prefix=num_prefix)
    assert moved.shape == (1, num_prefix + new_grid[0] * new_grid[1], 3)
    assert torch.equal(moved[:, :num_prefix], table[:, :num_prefix])
    expected = interpolated_by_loops(table[0, num_prefix:].reshape(*grid, 3), new_grid)
    assert (moved[0, num_prefix:].reshape(*new_grid, 3) - expected).abs().max() < EXACT


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_same_grid_is_the_identity_and_a_copy(dtype):
    table = drawn(1, 16, 4).to(dtype)
    moved = interpolate_positions(table, (3, 5), (3, 5))
    assert torch.equal(moved, table)
    assert moved.dtype == dtype
    assert moved.data_ptr() != table.data_ptr()


def test_every_size_comes_out_exactly():
    """Sizes at which 37 · (size / 37) falls below size in floating point: a scale factor loses a row there."""
    table = drawn(1, 1 + 37 * 37, 1)
    for size in (39, 43, 78, 86, 115, 123):
        assert interpolate_positions(table, (37, 37), (size, 40)).shape == (1, 1 + size * 40, 1)


def test_height_and_width_stay_apart():
    """One channel holds the row, the other the column: afterwards still."""
    row, column = torch.meshgrid(torch.arange(3.0), torch.arange(5.0), indexing="ij")
    table = torch.stack([row, column], -1).reshape(1, 15, 2)
    moved = interpolate_positions(table, (3, 5), (6, 20), num_prefix=0).reshape(6, 20, 2)
    assert moved[..., 0].std(1).max() < 1e-5
    assert moved[..., 1].std(0).max() < 1e-5
    assert (moved[:, 0, 0].diff() > 0).all()
    assert (moved[0, :, 1].diff() > 0).all()


def test_half_precision_is_interpolated_in_single_and_rounded_once():
    table = drawn(1, 13, 4).to(torch.bfloat16)
    moved = interpolate_positions(table, (3, 4), (5, 7))
    assert torch.equal(moved, interpolate_positions(table.float(), (3, 4), (5, 7)).to(torch.bfloat16))


def test_at_size_moves_positions_and_nothing_else():
    net = model(num_registers=2)
    larger = net.at_size((10, 35))
    assert net.grid == (3, 3), "the model itself was changed"
    assert larger.grid == (5, 7)
    assert larger.patch_embedding.image_size == (10, 35)
    assert torch.equal(
        larger.position_embedding, interpolate_positions(net.position_embedding.detach(), (3, 3), (5, 7))
    )
    for name, parameter in net.named_parameters():
        if not name.startswith("positions."):
            assert torch.equal(parameter, larger.get_parameter(name)), name
    assert larger(drawn(2, 2, 10, 35)).shape == (2, 5)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "factorised", None])
def test_at_the_same_size_it_is_the_same_model_and_another_object(positions):
    net = model(positions=positions)
    images = drawn(2, 2, 6, 15)
    same = net.at_size((6, 15))
    assert torch.equal(net(images), same(images))
    with torch.no_grad():
        for parameter in same.parameters():
            parameter.add_(1.0)
    assert (net(images) - same(images)).abs().max() > 1e-3
    assert same.train().at_size((6, 15)).training
    assert not net.at_size((6, 15)).training


def test_learned_positions_stay_trainable_or_frozen():
    net = model()
    assert net.at_size((10, 35)).positions.table.requires_grad
    net.requires_grad_(False)
    assert not net.at_size((10, 35)).positions.table.requires_grad


def test_factorised_is_a_row_plus_a_column_with_fewer_parameters():
    kind = shaken(FactorisedPositions((3, 5), 6))
    table = kind()
    for n in range(15):
        expected = kind.rows[0, n // 5] + kind.columns[0, n % 5]
        assert torch.equal(table[0, 1 + n], expected)
    assert torch.equal(table[:, :1], kind.class_position)
    assert sum(p.numel() for p in kind.parameters()) == (1 + 3 + 5) * 6
    assert sum(p.numel() for p in LearnedPositions((3, 5), 6).parameters()) == (1 + 15) * 6


@pytest.mark.parametrize("new_grid", [(6, 10), (2, 9), (3, 4)])
def test_factorised_moves_as_the_table_it_stands_for(new_grid):
    kind = shaken(FactorisedPositions((3, 5), 6))
    whole = interpolate_positions(kind().detach(), (3, 5), new_grid)
    assert (kind.resized(new_grid)() - whole).abs().max() < EXACT


def test_sinusoidal_is_vaswani_for_the_row_and_for_the_column():
    table = SinusoidalPositions((3, 5), 16)()[0]
    assert table[0].abs().max() == 0  # the class token stands nowhere
    rows, columns = mhalib.sinusoidal_positions(3, 8), mhalib.sinusoidal_positions(5, 8)
    for n in range(15):
        assert (table[1 + n] - torch.cat([rows[n // 5], columns[n % 5]])).abs().max() < 1e-6
    assert not list(SinusoidalPositions((3, 5), 16).parameters())


def test_sinusoidal_moves_to_the_places_where_interpolation_looks():
    fine = SinusoidalPositions((4, 4), 8).resized((8, 2))
    place = torch.tensor([(i + 0.5) / 2 - 0.5 for i in range(8)], dtype=torch.float64)
    assert (fine()[0, 1:].reshape(8, 2, 8)[:, 0, 0].double() - place.sin()).abs().max() < 1e-6
    across = torch.tensor([0.5, 2.5], dtype=torch.float64)
    assert (fine()[0, 1:].reshape(8, 2, 8)[0, :, 4].double() - across.sin()).abs().max() < 1e-6
    assert torch.equal(fine.resized((4, 4))(), SinusoidalPositions((4, 4), 8)())
    assert fine(torch.zeros(1, dtype=torch.float64)).dtype == torch.float64
    assert model(positions="sinusoidal").double().at_size((10, 35)).position_embedding.dtype == torch.float64

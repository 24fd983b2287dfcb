"""Exercises of chapter 15, channel and spatial attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from mhalib import gates
from mhalib.checks import Case, Exercise, Finding, Outcome, Property

# ------------------------------------------------------------------------------------------------------ 15.excite


def excite(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Squeeze-and-excitation (B, C, H, W) of x (B, C, H, W), with w1 (C / r, C) and w2 (C, C / r)."""
    gate = gates.SqueezeExcitation(w1.shape[1], w1.shape[1] // w1.shape[0])
    return functional_call(gate, {"down.weight": w1, "up.weight": w2}, (x,))


def _map_case(generator: torch.Generator, name: str, *shape: int, r: int, gradients: tuple[str, ...] = ()) -> Case:
    c = shape[1]
    shapes = {"x": shape, "w1": (c // r, c), "w2": (c, c // r)}
    drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
    return Case(name, drawn, gradients)


def _map_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    plain = _map_case(generator, "2 maps of 6 channels", 2, 6, 3, 5, r=2, gradients=("x", "w1", "w2"))
    one = {**plain.arguments, "x": plain.arguments["x"][1:].clone()}
    return [
        plain,
        Case("the second of them alone", one),
        _map_case(generator, "as many channels as rows and columns", 3, 4, 4, 4, r=2),
        _map_case(generator, "no reduction", 2, 3, 4, 2, r=1),
        _map_case(generator, "1 × 1, after pooling", 2, 8, 1, 1, r=4),
    ]


def _mean(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def _excite_with(squeeze=_mean, inner=torch.relu, outer=torch.sigmoid, alone: bool = False):
    """Squeeze-and-excitation with one thing different."""

    def mistaken(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        gate = outer(inner(squeeze(x) @ w1.mT) @ w2.mT)
        gate = gate[:, :, None, None].expand(len(x), -1, 1, 1)
        return gate if alone else gate * x

    return mistaken


def _each_pixel(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    return x * torch.sigmoid(torch.relu(x.movedim(1, -1) @ w1.mT) @ w2.mT).movedim(-1, 1)


def _shrinks(case: Case, got: Outcome, want: Outcome) -> bool:
    x, y = case.arguments["x"], got.value
    return (y.abs() <= x.abs()).all() and (x * y >= 0).all()


def _one_a_channel(case: Case, got: Outcome, want: Outcome) -> bool:
    gate = got.value / case.arguments["x"]
    return torch.allclose(gate, gate[:, :, :1, :1].expand_as(gate))


EXCITE = Exercise(
    id="15.excite",
    points=3,
    answer="excite",
    cases=_map_cases,
    reference=excite,
    properties=(
        Property.equal("equals the equations"),
        Property.each("only shrinks: |y| is at most |x|, with the same sign", _shrinks),
        Property.each("one number for each channel, the same at every position", _one_a_channel),
        Property(
            "an image alone gets the same as in company",
            lambda e: torch.allclose(e.got("2 maps of 6 channels")[1:], e.got("the second of them alone")),
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no squeeze",
            "Each position makes a gate of its own. Which step is there so that a gate sees the whole image?",
            _each_pixel,
        ),
        Finding.like(
            "softmax",
            "Your gates of one image sum to 1, so that most channels are nearly shut. Do the equations make channels "
            "compete?",
            _excite_with(outer=lambda u: u.softmax(dim=-1)),
        ),
        Finding.like(
            "no sigmoid",
            "Some of your gates are negative, or above 1. What brings any number between 0 and 1?",
            _excite_with(outer=lambda u: u),
        ),
        Finding.like(
            "no relu",
            "Two matrices with nothing between them are one matrix. What stands between W₁ and W₂?",
            _excite_with(inner=lambda u: u),
        ),
        Finding.like(
            "a sum in the place of a mean",
            "Your gates depend on how large the image is: a 1 × 1 map is right, and a larger one is not.",
            _excite_with(squeeze=lambda x: x.sum((2, 3))),
        ),
        Finding.like(
            "the maximum",
            "You squeeze by the largest number of a channel. That is one half of CBAM; here the equation has another.",
            _excite_with(squeeze=lambda x: x.amax((2, 3))),
        ),
        Finding.like(
            "mean over the batch",
            "An image gets another answer in company than alone. Over which axes do you take the mean?",
            _excite_with(squeeze=lambda x: x.mean((0, 2, 3), keepdim=True)[:, :, 0, 0]),
        ),
        Finding.like(
            "the gate alone",
            "These are the gates, and they are right. Asked for is the feature map that they leave.",
            _excite_with(alone=True),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 15.refine


def refine(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    """CBAM's second half (B, C, H, W): x (B, C, H, W) times its channel gates (B, C), then times its position gates."""
    spatial = gates.SpatialAttention(kernel.shape[-1])
    return functional_call(spatial, {"conv.weight": kernel}, (x * channel[:, :, None, None],))


def _refine_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, k: int, gradients: tuple[str, ...] = ()) -> Case:
        shapes = {"x": shape, "channel": shape[:2], "kernel": (1, 2, k, k)}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        return Case(name, {**drawn, "channel": drawn["channel"].sigmoid()}, gradients)

    return [
        case("2 maps of 3 channels, kernel 3", 2, 3, 4, 6, k=3, gradients=("x", "channel", "kernel")),
        case("kernel 7, larger than the map", 1, 5, 4, 5, k=7),
        case("as many channels as rows and columns", 3, 4, 4, 4, k=3),
        case("kernel 1, two channels", 2, 2, 3, 5, k=1),
        case("a single channel", 2, 1, 3, 4, k=3),
    ]


def _mean_and_max(x: Tensor) -> list[Tensor]:
    return [x.mean(1, keepdim=True), x.amax(1, keepdim=True)]


def _position_gate(x: Tensor, kernel: Tensor, maps=_mean_and_max, outer=torch.sigmoid) -> Tensor:
    return outer(F.conv2d(torch.cat(maps(x), dim=1), kernel, padding=kernel.shape[-1] // 2))


def _refine_with(**how):
    """Channel gates, then position gates with one thing different."""

    def mistaken(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
        refined = x * channel[:, :, None, None]
        return refined * _position_gate(refined, kernel, **how)

    return mistaken


def _side_by_side(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    return x * channel[:, :, None, None] * _position_gate(x, kernel)


def _channels_lost(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    return x * _position_gate(x * channel[:, :, None, None], kernel)


def _softmax_over_places(u: Tensor) -> Tensor:
    return u.flatten(2).softmax(dim=-1).view_as(u)


def _one_a_place(case: Case, got: Outcome, want: Outcome) -> bool:
    gate = got.value / (case.arguments["x"] * case.arguments["channel"][:, :, None, None])
    return torch.allclose(gate, gate[:, :1].expand_as(gate)) and (gate > 0).all() and (gate < 1).all()


REFINE = Exercise(
    id="15.refine",
    points=4,
    answer="refine",
    cases=_refine_cases,
    reference=refine,
    properties=(
        Property.equal("equals the equations"),
        Property.each(
            "beside the channel gates, one number between 0 and 1 a position, the same for all channels", _one_a_place
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "side by side",
            "Your position gates look at x. By the equations they look at what the channel gates have left of it.",
            _side_by_side,
        ),
        Finding.like(
            "channel gates lost",
            "The position gates are right. They multiply a map that the channel gates have not touched: which one is "
            "it in the equations?",
            _channels_lost,
        ),
        Finding.like(
            "maximum first",
            "The kernel has a slice for each of the two maps, in this order: mean, maximum.",
            _refine_with(maps=lambda x: _mean_and_max(x)[::-1]),
        ),
        Finding.like(
            "the mean twice",
            "Your second map is the first one again. For a single channel that is right, because mean and maximum are "
            "the same there.",
            _refine_with(maps=lambda x: [x.mean(1, keepdim=True)] * 2),
        ),
        Finding.like(
            "no sigmoid",
            "Some of your position gates are negative, or above 1: those turn features around. What is missing?",
            _refine_with(outer=lambda u: u),
        ),
        Finding.like(
            "softmax over the positions",
            "Your position gates of an image sum to 1: on a large map nearly everything is shut. In a gate each "
            "position is judged on its own.",
            _refine_with(outer=_softmax_over_places),
        ),
        Finding.like(
            "pooled over the positions",
            "You pool each channel over the image. A position gate needs one number for each *position*: over which "
            "axis does it pool?",
            _refine_with(maps=lambda x: [p.mean(1, keepdim=True).expand_as(x[:, :1]) for p in _pooled(x)]),
        ),
    ),
)


def _pooled(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)


# ------------------------------------------------------------------------------------------------------- 15.start


def predict_start() -> dict[str, float]:
    """What fresh gates do: W₂ = 0, 64 channels, one gate or four in a row, with a sigmoid and with a softmax."""
    return {"gate": 0.5, "sum": 32.0, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 1 / 64**4}


def _near(key: str, room: float = 0.01):
    return lambda case, got, want: abs(got.value[key] / want.value[key] - 1) < room


def _within(key: str, low: float, high: float):
    return lambda case, got, want: low <= got.value[key] <= high


START = Exercise(
    id="15.start",
    points=2,
    answer="predict_start",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_start,
    properties=(
        Property.each(
            "five numbers, none below 0",
            lambda case, got, want: set(got.value) == set(want.value) and min(got.value.values()) >= 0,
            hint="Return a dict with five numbers under the names that the docstring shows.",
        ),
        *(Property.each(f"{key}: within 1 % of what is measured", _near(key)) for key in predict_start()),
    ),
    findings=(
        Finding.any(
            "gates start open",
            "Weights of 0 do not leave the map as it is. What is the sigmoid of 0?",
            _within("gate", 0.9, 1.1),
        ),
        Finding.any(
            "gates start shut",
            "The *logit* of each gate is 0. What does the sigmoid make of that?",
            _within("gate", 0.0, 0.1),
        ),
        Finding.any(
            "gates sum to one",
            "Nothing divides by a sum. There are 64 gates in one layer, and you have said how large each of them is.",
            _within("sum", 0.9, 1.1),
        ),
        Finding.any(
            "one gate is as good as four",
            "The second gate multiplies what the first has left, and so on.",
            _within("four", 0.4, 0.6),
        ),
        Finding.any(
            "gates are added",
            "Two gates of a half one after the other leave a quarter. How does that go on?",
            _within("four", 0.12, 0.26),
        ),
        Finding.any(
            "softmax of a half",
            "A softmax gives each of 64 equal logits the same number too. What do these have to sum to?",
            _within("softmax", 0.4, 0.6),
        ),
        Finding.any(
            "softmax, four times the same",
            "Four layers multiply their gates, with a softmax as with a sigmoid.",
            _within("softmax, four", 1e-3, 1.0),
        ),
    ),
)

# ----------------------------------------------------------------------------------------------------- 15.matched


def _plain_weights(width: int, in_channels: int, num_classes: int, norms: int = 2) -> int:
    """Two blocks of 3 × 3 convolution and batch norm, and a linear head with biases."""
    return 9 * in_channels * width + 9 * width**2 + norms * 2 * width + width * num_classes + num_classes


def matched(channels: int, reduction: int, in_channels: int, num_classes: int) -> dict[str, int]:
    """Weights of a gated network, and the width and the weights of the plain one that is nearest to it."""
    return _matched_with()(channels, reduction, in_channels, num_classes)


def _nearest(total: int, channels: int, weights) -> int:
    return min(range(channels, 2 * channels + 1), key=lambda width: abs(weights(width) - total))


def _rounded_down(total: int, channels: int, weights) -> int:
    return max(width for width in range(channels, 2 * channels + 1) if weights(width) <= total)


def _in_proportion(total: int, channels: int, weights) -> int:
    return round(channels * total / weights(channels))


def _matched_with(gate=lambda c, r: 2 * c * c // r, norms: int = 2, choose=_nearest):
    """Counting with one thing different."""

    def counted(channels: int, reduction: int, in_channels: int, num_classes: int) -> dict[str, int]:
        def weights(width: int) -> int:
            return _plain_weights(width, in_channels, num_classes, norms)

        total = weights(channels) + 2 * gate(channels, reduction)
        width = choose(total, channels, weights)
        return {"gated": total, "width": width, "plain": weights(width)}

    return counted


def _matched_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    drawn = 16 * int(torch.randint(2, 9, (1,), generator=generator))
    rows = [(64, 4, 3, 10), (32, 2, 1, 10), (16, 1, 3, 5), (128, 16, 3, 100), (24, 3, 2, 7), (drawn, 8, 3, 12)]
    names = ("channels", "reduction", "in_channels", "num_classes")
    return [Case(f"{row[0]} channels, r = {row[1]}", dict(zip(names, row, strict=True))) for row in rows]


def _is_nearest(case: Case, got: Outcome, want: Outcome) -> bool:
    a = case.arguments
    near = [_plain_weights(got.value["width"] + step, a["in_channels"], a["num_classes"]) for step in (-1, 0, 1)]
    gaps = [abs(weights - want.value["gated"]) for weights in near]
    return gaps[1] == min(gaps)


MATCHED = Exercise(
    id="15.matched",
    points=3,
    answer="matched",
    cases=_matched_cases,
    reference=matched,
    properties=(
        Property.each("gated: the weights are counted", lambda c, got, want: got.value["gated"] == want.value["gated"]),
        Property.each("width: no other is nearer", _is_nearest),
        Property.equal("all three numbers are right"),
    ),
    findings=(
        Finding.like(
            "half the gates' weights",
            "Half of the weights of the gates are missing. How many gates are there, and how many matrices has each?",
            _matched_with(gate=lambda c, r: c * c // r),
        ),
        Finding.like(
            "biases in the gate",
            "You give the gate's two matrices biases. The network of the exercise has none there.",
            _matched_with(gate=lambda c, r: 2 * c * c // r + c // r + c),
        ),
        Finding.like(
            "no reduction",
            "Between the two matrices of your gates stand C units. What is it that the reduction reduces?",
            _matched_with(gate=lambda c, r: 2 * c * c),
        ),
        Finding.like(
            "norms forgotten",
            "A batch norm has two weights a channel. They are few; a count is right or it is not.",
            _matched_with(norms=0),
        ),
        Finding.like(
            "rounded down",
            "Your plain network never has more weights than the gated one. The nearest may have.",
            _matched_with(choose=_rounded_down),
        ),
        Finding.like(
            "in proportion",
            "You widen by the factor by which the weights grow. How do the weights of a convolution from C to C "
            "channels depend on C?",
            _matched_with(choose=_in_proportion),
        ),
        Finding.like(
            "no wider",
            "Your plain network is as wide as the gated one, so that it has fewer weights: that is the comparison of "
            "many papers, and what this exercise is there to repair.",
            _matched_with(choose=lambda total, channels, weights: channels),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 15.repair


def repaired(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """CBAM's channel attention (B, C, H, W) of x (B, C, H, W), with w1 (C / r, C) and w2 (C, C / r)."""
    gate = gates.ChannelAttention(w1.shape[1], w1.shape[1] // w1.shape[0])
    return functional_call(gate, {"down.weight": w1, "up.weight": w2}, (x,))


def _softmax(u: Tensor) -> Tensor:
    return u.softmax(dim=1)


def _repaired_with(squeezes=("mean", "amax"), outer=torch.sigmoid):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        both = [torch.relu(getattr(x, name)((2, 3)) @ w1.mT) @ w2.mT for name in squeezes]
        return x * outer(both[0] + both[1])[:, :, None, None]

    return mistaken


def _two_sigmoids(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    both = [torch.relu(pooled @ w1.mT) @ w2.mT for pooled in (x.mean((2, 3)), x.amax((2, 3)))]
    return x * (both[0].sigmoid() + both[1].sigmoid())[:, :, None, None]


def _added_before(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    pooled = x.mean((2, 3)) + x.amax((2, 3))
    return x * torch.sigmoid(torch.relu(pooled @ w1.mT) @ w2.mT)[:, :, None, None]


REPAIR = Exercise(
    id="15.repair",
    points=3,
    answer="repaired",
    cases=_map_cases,
    reference=repaired,
    properties=(
        Property.equal("equals the equation"),
        Property.each("only shrinks: |y| is at most |x|, with the same sign", _shrinks),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides what the gates look at, "
            "the other whether they compete.",
            _repaired_with(("mean", "mean"), _softmax),
        ),
        Finding.like(
            "still a softmax",
            "The maximum is used now. Sum your gates over the channels of one image: should that number be fixed?",
            _repaired_with(outer=_softmax),
        ),
        Finding.like(
            "still the mean twice",
            "The gates are independent now. Change the largest number of a channel and keep its mean: do they see it?",
            _repaired_with(("mean", "mean")),
        ),
        Finding.like(
            "softmax made larger",
            "Multiplied by their number your gates are 1 on the average, and they still compete: raise one channel, "
            "and the others fall. Some are above 1, too.",
            _repaired_with(outer=lambda u: u.softmax(dim=1) * u.shape[1]),
        ),
        Finding.like(
            "the maximum twice",
            "Now it is the mean that is computed and never used.",
            _repaired_with(("amax", "amax")),
        ),
        Finding.like(
            "two sigmoids",
            "Your gates go up to 2. Where does the sum stand in the equation, before the sigmoid or behind it?",
            _two_sigmoids,
        ),
        Finding.like(
            "added before the matrices",
            "Mean and maximum go through the two matrices one by one. Between the matrices is a ReLU: does a sum pass "
            "through it unchanged?",
            _added_before,
        ),
    ),
)

EXERCISES = (EXCITE, REFINE, START, MATCHED, REPAIR)

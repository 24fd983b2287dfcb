"""Faults of what positions add to scores."""

from engine import Fault

DISTANCE, RELATIVE, TABLES = "positions/distance.py", "positions/relative.py", "positions/tables.py"

FAULTS = [
    Fault(
        "distances start at the top left",
        DISTANCE,
        "distances",
        "torch.arange(lq, device=device)[:, None] + (lk - lq)",
        "torch.arange(lq, device=device)[:, None]",
        "test_position_scores.py::stand_where_the_causal_mask",
    ),
    Fault(
        "ALiBi rewards distance",
        DISTANCE,
        "alibi_bias",
        "distances(lq, lk, device=device).float()",
        "-distances(lq, lk, device=device).float()",
        "test_position_scores.py::slope_times_distance",
    ),
    Fault(
        "T5's buckets take query minus key",
        DISTANCE,
        "T5Bias.forward",
        "self._bucket(distances(lq, lk, device=self.table.device))",
        "self._bucket(-distances(lq, lk, device=self.table.device))",
        "test_position_scores.py::that_of_transformers",
    ),
    Fault(
        "Shaw's distances are not clipped from below",
        RELATIVE,
        "clipped_distances",
        "distances(lq, lk, device=device).clamp(-reach, reach)",
        "distances(lq, lk, device=device).clamp(max=reach)",
        "test_position_scores.py::shaw_by_loops",
    ),
    Fault(
        "Shaw's term is not scaled",
        RELATIVE,
        "shaw_scores",
        "factor * (query @ table.mT)",
        "query @ table.mT",
        "test_position_scores.py::equation_of_the_paper",
    ),
    Fault(
        "keys at one clipped distance overwrite each other",
        RELATIVE,
        "shaw_values",
        "by_distance.scatter_add(-1, row.expand_as(weights), weights)",
        "by_distance.scatter(-1, row.expand_as(weights), weights)",
        "test_position_scores.py::shaw_by_loops",
    ),
    Fault(
        "the second position term takes the mirrored distance",
        RELATIVE,
        "disentangled_scores",
        "(relative_query @ key.mT).gather(-2, row)",
        "(relative_query @ key.mT).gather(-2, relative_query.shape[1] - 1 - row)",
        "test_position_scores.py::deberta_v2",
    ),
    Fault(
        "three terms are scaled as one",
        RELATIVE,
        "disentangled_scores",
        "(3 * dim) ** -0.5",
        "dim ** -0.5",
        "test_position_scores.py::deberta_v2",
    ),
    Fault(
        "the rows of a table of positions are taken from the front",
        TABLES,
        "PositionTable.forward",
        "self.query_factors[:, lk - lq : lk]",
        "self.query_factors[:, :lq]",
        "test_position_scores.py::takes_its_rows_from_the_end",
    ),
    Fault(
        "the table and its factors do not start alike",
        TABLES,
        "PositionTable.__init__",
        "(0.1 / rank ** 0.5) ** 0.5",
        "0.1 / rank ** 0.5",
        "test_position_scores.py::start_with_one_size",
    ),
    Fault(
        "places of a grid are counted column by column",
        TABLES,
        "axial_bias",
        "pairs.flatten(3, 4).flatten(1, 2)[None]",
        "pairs.permute(0, 2, 1, 4, 3).flatten(3, 4).flatten(1, 2)[None]",
        "test_position_scores.py::axial_bias_by_loops",
    ),
]

"""Which test files hold what a module of mhalib promises, the quickest first; `mutants` runs them."""

_ATTENTION = ("test_dead_rows.py", "test_no_future_leak.py", "test_strides_and_empties.py", "test_arguments.py")
_MAPS = ("test_saliency_attention.py", "test_saliency_class.py", "test_saliency_faithfulness.py")
_VISION = ("test_vision.py", "test_vision_refusals.py", "test_vision_positions.py", "test_vision_weights.py")

TESTED_BY = {
    "arguments.py": (
        *("test_arguments.py", "test_arguments_in_one_place.py", "test_layers.py", "test_vision_refusals.py"),
        "test_data.py",
    ),
    "backends/bands.py": ("test_cpu_paths.py", "test_plan.py", "test_no_future_leak.py"),
    "backends/derivatives.py": ("test_transforms.py", "test_modes.py", "test_short_cut.py"),
    "backends/mixed_precision.py": ("test_modes.py", "test_tiled.py"),
    "backends/reference.py": (*_ATTENTION, "test_parity.py"),
    "backends/request.py": ("test_short_cut.py", "test_plan.py", *_ATTENTION, "test_parity.py", "test_cpu_paths.py"),
    "backends/sdpa.py": ("test_cpu_paths.py", *_ATTENTION, "test_parity.py", "test_known_bugs.py"),
    "backends/tiled.py": ("test_tiled.py", "test_transforms.py", "test_modes.py"),
    "backends/tiled_op.py": ("test_tiled.py", "test_transforms.py", "test_modes.py"),
    "backends/tiles.py": ("test_tiled.py", *_ATTENTION, "test_parity.py"),
    "backends/torch_kernel.py": ("test_cpu_paths.py", "test_memory_of_the_choice.py", *_ATTENTION, "test_modes.py"),
    "backends/ways.py": ("test_plan.py", "test_cpu_paths.py"),
    "cache.py": ("test_cache.py",),
    "counting.py": ("test_counting.py",),
    "course/data.py": ("test_data.py", "test_labels.py", "test_sizes_of_numpy.py"),
    "course/inputs.py": ("test_labels.py", "test_plots.py"),
    "course/plots.py": ("test_plots.py",),
    "course/training.py": ("test_training.py",),
    "language/byte_pairs.py": ("test_byte_pairs.py",),
    "language/decoder.py": ("test_decoder.py",),
    "language/generation.py": ("test_generation.py",),
    "language/parts.py": ("test_language_parts.py", "test_decoder.py"),
    "vision/faithfulness.py": _MAPS[2:],
    "functional.py": (
        "test_short_cut.py",
        "test_backend_choice.py",
        *_ATTENTION,
        "test_modes.py",
        "test_transforms.py",
    ),
    "vision/gates.py": ("test_gates.py",),
    "vision/positions.py": ("test_vision_positions.py", "test_vision_refusals.py"),
    "latent.py": ("test_latent.py",),
    "layers.py": ("test_layers.py", "test_grouping.py", "test_cache.py", "test_no_future_leak.py", "test_modes.py"),
    "masks.py": ("test_masks.py", "test_mask_memory.py", "test_no_future_leak.py", "test_arguments.py"),
    "configurations.py": ("test_counting.py", "test_counting_real_models.py"),
    "positions.py": ("test_positions.py", "test_rotary_range.py", "test_known_bugs.py"),
    "vision/saliency.py": _MAPS,
    "vision/transformer.py": _VISION,
    "vision/weights.py": ("test_vision_weights.py",),
}

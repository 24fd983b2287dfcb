"""Which test files hold what a module of mhalib promises, the quickest first; `mutants` runs them."""

_ATTENTION = ("test_dead_rows.py", "test_no_future_leak.py", "test_strides_and_empties.py", "test_arguments.py")
_MAPS = ("test_saliency_attention.py", "test_saliency_class.py", "test_saliency_faithfulness.py")
_VISION = ("test_vision.py", "test_vision_refusals.py", "test_vision_positions.py", "test_vision_weights.py")

TESTED_BY = {
    "arguments.py": ("test_arguments.py", "test_layers.py", "test_vision_refusals.py", "test_data.py"),
    "backends/reference.py": (*_ATTENTION, "test_parity.py"),
    "backends/request.py": ("test_short_cut.py", *_ATTENTION, "test_parity.py", "test_cpu_paths.py"),
    "backends/sdpa.py": ("test_cpu_paths.py", *_ATTENTION, "test_parity.py", "test_known_bugs.py"),
    "backends/tiled.py": ("test_tiled.py", *_ATTENTION, "test_parity.py"),
    "cache.py": ("test_cache.py",),
    "counting.py": ("test_counting.py",),
    "vision/faithfulness.py": _MAPS[2:],
    "functional.py": ("test_short_cut.py", "test_backend_choice.py", *_ATTENTION),
    "vision/gates.py": ("test_gates.py",),
    "vision/positions.py": ("test_vision_positions.py", "test_vision_refusals.py"),
    "latent.py": ("test_latent.py",),
    "layers.py": ("test_layers.py", "test_grouping.py", "test_cache.py", "test_no_future_leak.py"),
    "masks.py": ("test_masks.py", "test_no_future_leak.py", "test_arguments.py"),
    "configurations.py": ("test_counting.py", "test_counting_real_models.py"),
    "positions.py": ("test_positions.py", "test_known_bugs.py"),
    "vision/saliency.py": _MAPS,
    "vision/transformer.py": _VISION,
    "vision/weights.py": ("test_vision_weights.py",),
}

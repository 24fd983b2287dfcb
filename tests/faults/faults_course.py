"""Faults of the data and the training that the notebooks use."""

from engine import Fault

DATA = "course/data.py"
TRAINING = "course/training.py"

FAULTS = [
    Fault(
        "the digits are transposed",
        DATA,
        "digits",
        "torch.tensor(raw.images / 16, dtype=torch.float32)",
        "torch.tensor(raw.images / 16, dtype=torch.float32).mT.contiguous()",
        "test_data.py::stand_upright",
    ),
    Fault(
        "test images are images that were trained on",
        DATA,
        "digits",
        "Digits(images[train], labels[train], images[test], labels[test])",
        "Digits(images[train], labels[train], images[train[:len(test)]], labels[train[:len(test)]])",
        "test_data.py::each_once",
    ),
    Fault(
        "the digits are split anew each time",
        DATA,
        "digits",
        "selection.train_test_split(..., random_state=0)",
        "selection.train_test_split(..., random_state=None)",
        "test_data.py::split_is_fixed",
    ),
    Fault(
        "two digits overlap",
        DATA,
        "_free_pairs",
        "(places[:, None] - places).abs() >= torch.tensor(size)",
        "(places[:, None] - places).abs() > 0",
        "test_data.py::where_places_and_regions",
    ),
    Fault(
        "the regions of rows and columns are exchanged",
        DATA,
        "TwoDigits.regions",
        "(self.places[..., axis, None, None] for axis in (0, 1))",
        "(self.places[..., axis, None, None] for axis in (1, 0))",
        "test_data.py::where_places_and_regions",
    ),
    Fault(
        "the regions are one row too low",
        DATA,
        "TwoDigits.regions",
        "row < top + self.digit_size[0]",
        "row <= top + self.digit_size[0]",
        "test_data.py::where_places_and_regions",
    ),
    Fault(
        "two digits are of one class",
        DATA,
        "_different_classes",
        "labels[first, None] != labels",
        "labels[first, None] >= 0 * labels",
        "test_data.py::two_classes_that_differ",
    ),
    Fault(
        "a digit always has the same partner",
        DATA,
        "_different_classes",
        "drawn[:, None]",
        "0",
        "test_data.py::may_be_the_partner",
    ),
    Fault(
        "the first digit always stands on the left",
        DATA,
        "two_digits",
        "torch.randint(len(pairs), (number,), generator=generator)",
        "torch.zeros(number, dtype=torch.int64)",
        "test_data.py::often_on_the_right",
    ),
    Fault(
        "canvases are drawn with torch's own generator",
        DATA,
        "_different_classes",
        "torch.randint(len(labels), (number,), generator=generator)",
        "torch.randint(len(labels), (number,))",
        "test_data.py::left_alone",
    ),
    Fault(
        "photographs are stretched",
        DATA,
        "photograph",
        "image = _centre_part(image, height / width)",
        "pass",
        "test_data.py::average_what_they_cover",
    ),
    Fault(
        "photographs are cut at a corner",
        DATA,
        "_centre_part",
        "((height - new_height) // 2, (width - new_width) // 2)",
        "(0, 0)",
        "test_data.py::average_what_they_cover",
    ),
    Fault(
        "photographs have their axes exchanged",
        DATA,
        "photograph",
        "torch.tensor(raw, dtype=torch.float32).reshape(*PHOTOGRAPHS[name]).permute(..., 0, 1)",
        "torch.tensor(raw, dtype=torch.float32).reshape(*PHOTOGRAPHS[name]).permute(..., 1, 0)",
        "test_data.py::own_pixels",
    ),
    Fault(
        "gradients pile up over the batches",
        TRAINING,
        "_one_epoch",
        "optimizer.zero_grad()",
        "pass",
        "test_training.py::adamw_written_out",
    ),
    Fault(
        "the learning rate never moves",
        TRAINING,
        "_one_epoch",
        """\
optimizer.step()
schedule.step()
""",
        """\
optimizer.step()
pass
""",
        "test_training.py::adamw_written_out",
    ),
    Fault(
        "every epoch has the same order",
        TRAINING,
        "_one_epoch",
        "torch.randperm(len(inputs))",
        "torch.arange(len(inputs))",
        "test_training.py::counts_once",
    ),
    Fault(
        "the loss is a mean of the means of batches",
        TRAINING,
        "_one_epoch",
        "batch_loss.item() * len(chosen)",
        "batch_loss.item() * batch_size",
        "test_training.py::counts_once",
        given=("torch.randperm(len(inputs)).to(inputs.device).split(batch_size)",),
    ),
    Fault("the seed is ignored", TRAINING, "fit", "torch.manual_seed(seed)", "pass", "test_training.py::seed_decides"),
    Fault(
        "training moves the global generator",
        TRAINING,
        "fit",
        """\
with torch.random.fork_rng(devices=[inputs.device] if inputs.is_cuda else []):
    ...
""",
        """\
if True:
    ...
""",
        "test_training.py::seed_decides",
    ),
    Fault(
        "the weights of the last epoch are kept",
        TRAINING,
        "fit",
        "model.load_state_dict(best_weights)",
        "pass",
        "test_training.py::patience_stops",
    ),
    Fault(
        "the best weights go on training",
        TRAINING,
        "fit",
        "copy.deepcopy(model.state_dict())",
        "model.state_dict()",
        "test_training.py::patience_stops",
    ),
    Fault(
        "an equal score is taken for a better one",
        TRAINING,
        "fit",
        "scores[-1] > scores[best_epoch]",
        "scores[-1] >= scores[best_epoch]",
        "test_training.py::patience_stops",
    ),
    Fault(
        "predictions are made with dropout",
        TRAINING,
        "predict",
        "model.eval()",
        "",
        "test_training.py::scores_in_evaluation",
    ),
    Fault(
        "training stays in evaluation mode after its first epoch",
        TRAINING,
        "_one_epoch",
        "model.train()",
        "",
        "test_training.py::scores_in_evaluation",
    ),
    Fault(
        "one right class of several is enough",
        TRAINING,
        "accuracy",
        "((outputs > 0) == (targets > 0.5)).all(-1)",
        "((outputs > 0) == (targets > 0.5)).any(-1)",
        "test_training.py::accuracy_of_one",
    ),
    Fault(
        "the progress bar leaves the time it took",
        TRAINING,
        "progress_bar",
        "form = '{desc} {bar:20} {n_fmt}/{total_fmt}, {remaining} left'",
        "form = '{desc} {bar:20} {n_fmt}/{total_fmt}, {elapsed_s:.6f} s'",
        "test_training.py::stays_of_the_bar",
    ),
]

"""Study files: what the shipped ones ask, how they extend one another, and every wrong file."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent

import pytest

from fastrcaps_search.data.shipped import MNIST, MNIST_MINI
from fastrcaps_search.definition.choices import (
    Decoder,
    EvaluateOn,
    Precision,
    RoutingGradient,
)
from fastrcaps_search.definition.load import find_study, load_study, shipped_names
from fastrcaps_search.definition.objective import COMMON
from fastrcaps_search.definition.parameters import TrialParameters
from fastrcaps_search.definition.study import StudyDefinition
from fastrcaps_search.definition.toml import study_toml
from fastrcaps_search.errors import DefinitionError, UsageError

SHIPPED = "fashion-mnist, mnist, mnist-mini, paper-fashion-mnist, paper-lenet5, paper-mnist"
STUDY_KEYS = (
    "extends, name, network, data_set, objectives, sampler, epochs, evaluate_on, "
    "runs_per_trial, batch_size, boundaries, precision, train_images, shifts, lr_max, lr_min, "
    "decay_rate, decay_steps, cycle_epochs, cycle_growth, polynomial_power, routing_gradient, "
    "min_accuracy, reconstruction_weight, space, configuration"
)
PARAMETER_KEYS = (
    "lr_policy, batch_policy, adabatch_exponent, decoder, weight_sharing, "
    "reconstruction_weight, lr_max, lr_min, "
    "batch_size, epochs, decay_rate, decay_steps, cycle_epochs, cycle_growth"
)
LR_POLICIES = (
    "fixed, exponential_decay, one_cycle, warm_restarts, warm_adabatch or polynomial_restarts"
)
ONE_LENET = '[[configuration]]\nlr_policy = "fixed"\nbatch_policy = "constant"\n'


def write(path: Path, text: str) -> Path:
    path.write_text(dedent(text))
    return path


def refusal(path: Path, kind: type[UsageError] = DefinitionError) -> str:
    """The message of a study file that is refused, which must be one line."""
    with pytest.raises(UsageError) as caught:
        load_study(str(path))
    message = str(caught.value)
    assert type(caught.value) is kind
    assert caught.value.exit_code == 2
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    return message


def test_the_six_shipped_studies_are_found_by_name() -> None:
    assert ", ".join(shipped_names()) == SHIPPED
    for name in shipped_names():
        assert load_study(name).name == name


def test_mnist_is_the_study_of_the_design() -> None:
    study = load_study("mnist")
    space = study.space
    assert space is not None
    assert study == StudyDefinition(name="mnist", space=space)
    assert (study.network, study.data_set) == ("capsnet", MNIST)
    assert (study.epochs, study.runs_per_trial, study.batch_size) == (30, 1, 16)
    assert (study.objectives, study.sampler) == (COMMON, "tpe")
    assert study.evaluate_on is EvaluateOn.VALIDATION
    assert study.boundaries == (3, 8, 13)
    assert study.precision is Precision.FP32
    assert (study.lr_max, study.lr_min, study.polynomial_power) == (1e-3, 1e-4, 2.0)
    assert (study.decay_rate, study.decay_steps) == (0.96, 2000)
    assert (study.cycle_epochs, study.cycle_growth) == (1, 1)
    assert (study.train_images, study.shifts) == (None, True)
    assert study.routing_gradient is RoutingGradient.FULL
    assert space.lr_policy == (
        "fixed",
        "exponential_decay",
        "one_cycle",
        "warm_restarts",
        "warm_adabatch",
    )
    assert space.batch_policy == ("constant", "adabatch")
    assert space.adabatch_exponent == (2, 3, 4, 5, 6, 7)
    assert space.decoder == (Decoder.FULL, Decoder.REDUCED)
    assert space.weight_sharing == (False, True)
    assert (space.lr_max, space.lr_min, space.batch_size) == (None, None, None)
    assert (study.reconstruction_weight, space.reconstruction_weight) == (0.0005, None)


def test_fashion_mnist_differs_from_mnist_by_its_images() -> None:
    mnist, fashion = load_study("mnist").to_dict(), load_study("fashion-mnist").to_dict()
    assert fashion == {**mnist, "name": "fashion-mnist", "data_set": "fashion-mnist"}


def test_mnist_mini_is_small() -> None:
    study = load_study("mnist-mini")
    assert (study.network, study.data_set) == ("capsnet-narrow", MNIST_MINI)
    assert (study.epochs, study.boundaries, study.split_size) == (5, (1, 2, 3), 4000)
    assert study.space is not None
    assert study.space.adabatch_exponent == (3, 4, 5)
    assert study.space.decoder == (Decoder.FULL, Decoder.REDUCED)


def test_exponential_decay_of_mnist_mini_ends_where_the_papers_does() -> None:
    # 0.96^(30 * 3,750 / 2,000) is 0.1006 of the highest rate, where 0.96^(1,250 / 2,000) is 0.975.
    ends = {}
    for name in ("paper-mnist", "mnist-mini"):
        study = load_study(name)
        steps = study.epochs * study.split_size / study.batch_size
        ends[name] = study.decay_rate ** (steps / study.decay_steps)
    assert ends == pytest.approx({"paper-mnist": 0.1006, "mnist-mini": 0.0983}, abs=1e-4)


def test_the_paper_studies_follow_its_protocol() -> None:
    digits, fashion = load_study("paper-mnist"), load_study("paper-fashion-mnist")
    lenet = load_study("paper-lenet5")
    for study in (digits, fashion, lenet):
        assert (study.epochs, study.runs_per_trial, study.batch_size) == (30, 5, 16)
        assert (study.evaluate_on, study.split_size) == (EvaluateOn.TEST, 60_000)
        assert (study.boundaries, study.space) == ((3,), None)
        assert (study.lr_max, study.lr_min) == (1e-3, 1e-4)
        assert (study.decay_rate, study.decay_steps) == (0.96, 2000)
        assert (study.cycle_epochs, study.cycle_growth) == (1, 1)
    assert fashion.configurations == digits.configurations
    assert lenet.network == "lenet5"
    rows = [
        (p.policy, p.adabatch_exponent, p.decoder, p.weight_sharing) for p in digits.configurations
    ]
    assert rows == [
        ("fixed", None, Decoder.FULL, False),
        ("exponential_decay", None, Decoder.FULL, False),
        ("one_cycle", None, Decoder.FULL, False),
        ("warm_restarts", None, Decoder.FULL, False),
        ("fixed+adabatch", 4, Decoder.FULL, False),
        ("warm_adabatch", 4, Decoder.FULL, False),
        ("fixed", None, Decoder.REDUCED, True),
        ("warm_adabatch", 4, Decoder.REDUCED, True),
    ]
    assert [(p.policy, p.adabatch_exponent, p.decoder) for p in lenet.configurations] == [
        ("fixed", None, None),
        ("exponential_decay", None, None),
        ("one_cycle", None, None),
        ("warm_restarts", None, None),
        ("fixed+adabatch", 4, None),
    ]


def test_a_study_file_may_start_from_a_shipped_study(tmp_path: Path) -> None:
    path = write(
        tmp_path / "quick.toml",
        """
        extends = "mnist"
        name = "quick"
        epochs = 2
        train_images = 2000
        [space]
        decoder = ["full"]
        lr_max = [1e-3, 1e-2]
        """,
    )
    study = load_study(str(path))
    mnist = load_study("mnist").to_dict()
    mnist["space"] |= {"decoder": ["full"], "lr_max": [1e-3, 1e-2]}
    assert study.to_dict() == {**mnist, "name": "quick", "epochs": 2, "train_images": 2000}


def test_extends_is_relative_to_the_file_that_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bases"
    folder.mkdir()
    write(folder / "first.toml", 'extends = "mnist"\nname = "first"\nepochs = 7\nlr_min = 1e-5')
    write(folder / "second.toml", 'extends = "first.toml"\nname = "second"\nepochs = 8')
    write(tmp_path / "third.toml", 'extends = "bases/second.toml"\nname = "third"')
    monkeypatch.chdir("/")
    study = load_study(str(tmp_path / "third.toml"))
    assert (study.name, study.epochs, study.lr_min) == ("third", 8, 1e-5)


def test_a_list_of_configurations_replaces_the_space_and_the_other_way_round(
    tmp_path: Path,
) -> None:
    listed = write(
        tmp_path / "listed.toml",
        'extends = "mnist"\nnetwork = "lenet5"\nname = "listed"\n' + ONE_LENET,
    )
    study = load_study(str(listed))
    assert study.space is None
    assert study.configurations == (TrialParameters(lr_policy="fixed", batch_policy="constant"),)
    searched = write(
        tmp_path / "searched.toml", 'extends = "listed.toml"\n[space]\nlr_policy = ["one_cycle"]'
    )
    study = load_study(str(searched))
    assert study.configurations == ()
    assert study.space is not None
    assert study.space.lr_policy == ("one_cycle",)


def test_a_network_without_capsules_takes_over_none_of_their_parameters(tmp_path: Path) -> None:
    path = write(tmp_path / "s.toml", 'extends = "mnist"\nname = "s"\nnetwork = "lenet5"')
    space = load_study(str(path)).space
    assert space is not None
    assert (space.decoder, space.weight_sharing) == (None, None)
    assert space.adabatch_exponent == (2, 3, 4, 5, 6, 7)
    write(path, 'extends = "mnist"\nnetwork = "lenet5"\n[space]\ndecoder = ["full"]')
    assert refusal(path) == f"{path}: space.decoder: must be left out: lenet5 has no decoder"


def test_a_value_that_a_file_fixes_replaces_the_choices_of_its_base(tmp_path: Path) -> None:
    write(
        tmp_path / "base.toml",
        'extends = "mnist"\n[space]\nepochs = [10, 20]\nlr_max = [1e-3, 1e-2]\n'
        "decay_steps = [1000, 2000]\n",
    )
    path = write(tmp_path / "s.toml", 'extends = "base.toml"\nepochs = 2\nlr_max = 2e-3\n')
    study = load_study(str(path))
    assert study.space is not None
    assert (study.space.epochs, study.space.lr_max) == (None, None)
    assert (study.epochs, study.lr_max) == (2, 2e-3)
    assert study.space.decay_steps == (1000, 2000)


def test_choices_that_a_file_offers_replace_the_value_of_its_base(tmp_path: Path) -> None:
    write(tmp_path / "base.toml", 'extends = "mnist"\nepochs = 2\nlr_max = 2e-3\nbatch_size = 8\n')
    path = write(
        tmp_path / "s.toml",
        'extends = "base.toml"\n[space]\nepochs = [2, 3]\nbatch_size = [1, 4]\n',
    )
    study = load_study(str(path))
    assert study.offered_epochs == (2, 3)
    assert (study.lr_max, study.batch_size) == (2e-3, 8)
    # What is shown is one file, and the same study.
    written = write(tmp_path / "written.toml", study_toml(study))
    assert load_study(str(written)) == study


def test_a_file_without_a_space_searches_the_shipped_one(tmp_path: Path) -> None:
    path = write(tmp_path / "s.toml", 'name = "mnist"')
    assert load_study(str(path)) == load_study("mnist")


def test_a_mistake_is_placed_in_the_file_that_holds_it(tmp_path: Path) -> None:
    base = write(tmp_path / "base.toml", 'name = "base"\n[space]\nadabatch_exponent = [12]')
    path = write(tmp_path / "s.toml", 'extends = "base.toml"')
    assert refusal(path) == (
        f"{base}: space.adabatch_exponent: must be a whole number from 0 to 10, got 12"
    )
    write(base, 'name = "base"\ncolour = 1')
    assert refusal(path) == f"{base}: colour: unknown key; allowed are {STUDY_KEYS}"


# Each text after the line `name = "s"`, and the whole message after the file's name.
WHOLE = "must be a whole number from"
NUMBER = "must be a number above 0 and at most 1"
DECAY = "must be a number above 0 and at most 0.9999"
WEIGHT = "must be a number from 0 to 1"
IN_SPACE = "must be a list of choices in [space]"
WRONG_VALUES = [
    # The study's own keys.
    ("epoch = 3", f"epoch: unknown key; allowed are {STUDY_KEYS}"),
    ('decoder = "none"', f"decoder: {IN_SPACE}: decoder = [...]"),
    ("adabatch_exponent = [4]", f"adabatch_exponent: {IN_SPACE}: adabatch_exponent = [...]"),
    ("epochs = 0", f"epochs: {WHOLE} 1 to 10000, got 0"),
    ("epochs = -1", f"epochs: {WHOLE} 1 to 10000, got -1"),
    ("epochs = 10001", f"epochs: {WHOLE} 1 to 10000, got 10001"),
    ("epochs = 3.0", f"epochs: {WHOLE} 1 to 10000, got 3.0"),
    ("epochs = true", f"epochs: {WHOLE} 1 to 10000, got true"),
    ('epochs = "3"', f'epochs: {WHOLE} 1 to 10000, got "3"'),
    ("epochs = [3]", f"epochs: {WHOLE} 1 to 10000, got [3]"),
    ("epochs = {a = 1}", f"epochs: {WHOLE} 1 to 10000, got a table"),
    ("epochs = 2020-01-02", f"epochs: {WHOLE} 1 to 10000, got 2020-01-02"),
    ("network = 5", "network: must be capsnet, capsnet-narrow or lenet5, got 5"),
    ('network = "CapsNet"', 'network: must be capsnet, capsnet-narrow or lenet5, got "CapsNet"'),
    (
        'data_set = "cifar10"',
        'data_set: must be mnist, fashion-mnist or mnist-mini, got "cifar10"',
    ),
    ("data_set = true", "data_set: must be mnist, fashion-mnist or mnist-mini, got true"),
    ('evaluate_on = "training"', 'evaluate_on: must be validation or test, got "training"'),
    ("runs_per_trial = 0", f"runs_per_trial: {WHOLE} 1 to 100, got 0"),
    ("runs_per_trial = true", f"runs_per_trial: {WHOLE} 1 to 100, got true"),
    ("batch_size = 0", f"batch_size: {WHOLE} 1 to 65536, got 0"),
    ("batch_size = true", f"batch_size: {WHOLE} 1 to 65536, got true"),
    ("batch_size = [16]", f"batch_size: {WHOLE} 1 to 65536, got [16]"),
    ("batch_size = 60000", "batch_size: must be at most the 55000 training images, got 60000"),
    ("boundaries = 3", "boundaries: must be a list such as [...], got 3"),
    ("boundaries = []", "boundaries: must offer at least one choice, got []"),
    ("boundaries = [0, 3]", f"boundaries: {WHOLE} 1 to 10000, got 0"),
    ("boundaries = [true]", f"boundaries: {WHOLE} 1 to 10000, got true"),
    ('boundaries = ["3"]', f'boundaries: {WHOLE} 1 to 10000, got "3"'),
    ("boundaries = [[3]]", f"boundaries: {WHOLE} 1 to 10000, got [3]"),
    ("boundaries = [3, 3]", "boundaries: must not repeat a choice, got [3, 3]"),
    ("boundaries = [8, 3]", "boundaries: must be one to three increasing epochs, got [8, 3]"),
    (
        "boundaries = [1, 2, 3, 4]",
        "boundaries: must be one to three increasing epochs, got [1, 2, 3, 4]",
    ),
    ('sampler = "best"', 'sampler: must be tpe or random, got "best"'),
    (
        'objectives = ["accuracy", "energy"]',
        'objectives: must be accuracy, training_seconds or parameters, got "energy"',
    ),
    (
        'objectives = ["accuracy", "parameters", "training_seconds"]',
        "objectives: must begin with accuracy, training_seconds, parameters, got "
        '["accuracy", "parameters", "training_seconds"]',
    ),
    ('precision = "fp8"', 'precision: must be fp32, tf32 or bf16, got "fp8"'),
    ("train_images = 0", f"train_images: {WHOLE} 1 to 10000000, got 0"),
    ("train_images = true", f"train_images: {WHOLE} 1 to 10000000, got true"),
    (
        "train_images = 55001",
        "train_images: must be at most the training split's 55000, got 55001",
    ),
    (
        'train_images = 60001\nevaluate_on = "test"',
        "train_images: must be at most the training split's 60000, got 60001",
    ),
    (
        'train_images = 4001\ndata_set = "mnist-mini"',
        "train_images: must be at most the training split's 4000, got 4001",
    ),
    ("train_images = 15", "batch_size: must be at most the 15 training images, got 16"),
    ("shifts = 1", "shifts: must be true or false, got 1"),
    ('shifts = "true"', 'shifts: must be true or false, got "true"'),
    ("lr_max = 0", f"lr_max: {NUMBER}, got 0"),
    ("lr_max = -0.001", f"lr_max: {NUMBER}, got -0.001"),
    ("lr_max = 1.5", f"lr_max: {NUMBER}, got 1.5"),
    ("lr_max = nan", f"lr_max: {NUMBER}, got nan"),
    ("lr_max = inf", f"lr_max: {NUMBER}, got inf"),
    ("lr_max = true", f"lr_max: {NUMBER}, got true"),
    ('lr_max = "0.1"', f'lr_max: {NUMBER}, got "0.1"'),
    ("lr_max = [0.1, 0.2]", f"lr_max: {NUMBER}, got [0.1, 0.2]"),
    ("lr_max = 1" + 400 * "0", f"lr_max: {NUMBER}, got a number of more than 80 digits"),
    ("lr_max = 0x" + 5000 * "f", f"lr_max: {NUMBER}, got a number of more than 80 digits"),
    ("lr_min = 0.0", f"lr_min: {NUMBER}, got 0.0"),
    ("lr_min = false", f"lr_min: {NUMBER}, got false"),
    ("lr_min = 0.001", "lr_min: must be below lr_max (0.001), got 0.001"),
    ("lr_min = 0.01", "lr_min: must be below lr_max (0.001), got 0.01"),
    ("lr_max = 0.0001", "lr_min: must be below lr_max (0.0001), got 0.0001"),
    ("decay_rate = 1", f"decay_rate: {DECAY}, got 1"),
    ("decay_rate = 0", f"decay_rate: {DECAY}, got 0"),
    ("decay_rate = [0.9, 0.99]", f"decay_rate: {DECAY}, got [0.9, 0.99]"),
    ("decay_steps = 0", f"decay_steps: {WHOLE} 1 to 10000000, got 0"),
    ("decay_steps = 2e3", f"decay_steps: {WHOLE} 1 to 10000000, got 2000.0"),
    ("cycle_epochs = 0", f"cycle_epochs: {WHOLE} 1 to 10000, got 0"),
    ("cycle_epochs = true", f"cycle_epochs: {WHOLE} 1 to 10000, got true"),
    ("cycle_growth = 0", f"cycle_growth: {WHOLE} 1 to 10, got 0"),
    ("cycle_growth = 1.5", f"cycle_growth: {WHOLE} 1 to 10, got 1.5"),
    ("cycle_growth = 11", f"cycle_growth: {WHOLE} 1 to 10, got 11"),
    (
        "polynomial_power = 0",
        "polynomial_power: must be a number above 0 and at most 10, got 0",
    ),
    (
        "polynomial_power = true",
        "polynomial_power: must be a number above 0 and at most 10, got true",
    ),
    ('routing_gradient = "first"', 'routing_gradient: must be full or last, got "first"'),
    (
        'network = "lenet5"\nrouting_gradient = "last"',
        "routing_gradient: must be full: lenet5 has no routing",
    ),
    ("extends = 3", "extends: must be a text in quotes, got 3"),
    (
        'extends = "nothing.toml"',
        f'extends: study "nothing.toml" must be a study file or one of {SHIPPED}; '
        "got no such file",
    ),
    (
        'extends = "."',
        f'extends: study "." must be a study file or one of {SHIPPED}; got a folder',
    ),
    # Keys and values that would break the line, or flood it.
    ('"a\\nb" = 1', f"a\\nb: unknown key; allowed are {STUDY_KEYS}"),
    (f"{100 * 'k'} = 1", f"{77 * 'k'}...: unknown key; allowed are {STUDY_KEYS}"),
    ('data_set = "a\\rb"', 'data_set: must be mnist, fashion-mnist or mnist-mini, got "a\\rb"'),
    ('epochs = "a\\u2028b\\u001b"', f'epochs: {WHOLE} 1 to 10000, got "a\\u2028b\\x1b"'),
    (f'epochs = "{100 * "x"}"', f'epochs: {WHOLE} 1 to 10000, got "{76 * "x"}...'),
    # The space.
    ("space = 3", "space: must be a table [space], got 3"),
    ("[[space]]", "space: must be a table [space], got [a table]"),
    ('[space]\npolicy = ["fixed"]', f"space.policy: unknown key; allowed are {PARAMETER_KEYS}"),
    (
        '[space]\nlr_policy = "fixed"',
        'space.lr_policy: must be a list such as [...], got "fixed"',
    ),
    ("[space]\nlr_policy = []", "space.lr_policy: must offer at least one choice, got []"),
    (
        '[space]\nlr_policy = ["fixed", "cosine"]',
        f'space.lr_policy: must be {LR_POLICIES}, got "cosine"',
    ),
    ("[space]\nlr_policy = [1]", f"space.lr_policy: must be {LR_POLICIES}, got 1"),
    (
        '[space]\nlr_policy = ["fixed", "fixed"]',
        'space.lr_policy: must not repeat a choice, got ["fixed", "fixed"]',
    ),
    ("[space]\nbatch_policy = []", "space.batch_policy: must offer at least one choice, got []"),
    (
        '[space]\nbatch_policy = ["grows"]',
        'space.batch_policy: must be constant or adabatch, got "grows"',
    ),
    (
        "[space]\nadabatch_exponent = []",
        "space.adabatch_exponent: must offer at least one choice, got []",
    ),
    ("[space]\nadabatch_exponent = [2, 11]", f"space.adabatch_exponent: {WHOLE} 0 to 10, got 11"),
    ("[space]\nadabatch_exponent = [-1]", f"space.adabatch_exponent: {WHOLE} 0 to 10, got -1"),
    ("[space]\nadabatch_exponent = [true]", f"space.adabatch_exponent: {WHOLE} 0 to 10, got true"),
    ("[space]\nadabatch_exponent = [2.0]", f"space.adabatch_exponent: {WHOLE} 0 to 10, got 2.0"),
    (
        "[space]\nadabatch_exponent = 2",
        "space.adabatch_exponent: must be a list such as [...], got 2",
    ),
    (
        "[space]\nadabatch_exponent = [2, 3, 2]",
        "space.adabatch_exponent: must not repeat a choice, got [2, 3, 2]",
    ),
    ("[space]\ndecoder = []", "space.decoder: must offer at least one choice, got []"),
    ('[space]\ndecoder = ["half"]', 'space.decoder: must be full, reduced or none, got "half"'),
    ("[space]\nweight_sharing = [1]", "space.weight_sharing: must be true or false, got 1"),
    (
        "[space]\nweight_sharing = true",
        "space.weight_sharing: must be a list such as [...], got true",
    ),
    (
        "[space]\nweight_sharing = [true, true]",
        "space.weight_sharing: must not repeat a choice, got [true, true]",
    ),
    ("[space]\nbatch_size = [0]", f"space.batch_size: {WHOLE} 1 to 65536, got 0"),
    ("[space]\nbatch_size = []", "space.batch_size: must offer at least one choice, got []"),
    (
        "train_images = 50\n[space]\nbatch_size = [32, 64]",
        "space.batch_size: must be at most the 50 training images, got 64",
    ),
    ("reconstruction_weight = -0.1", f"reconstruction_weight: {WEIGHT}, got -0.1"),
    ("reconstruction_weight = nan", f"reconstruction_weight: {WEIGHT}, got nan"),
    ("reconstruction_weight = true", f"reconstruction_weight: {WEIGHT}, got true"),
    ("reconstruction_weight = 1.5", f"reconstruction_weight: {WEIGHT}, got 1.5"),
    (
        'network = "lenet5"\nreconstruction_weight = 0.001',
        "reconstruction_weight: must be left out: lenet5 has no decoder",
    ),
    (
        "[space]\nreconstruction_weight = [0, 0.001, 2]",
        f"space.reconstruction_weight: {WEIGHT}, got 2",
    ),
    (
        "[space]\nreconstruction_weight = []",
        "space.reconstruction_weight: must offer at least one choice, got []",
    ),
    (
        '[space]\ndecoder = ["none"]\nreconstruction_weight = [1e-4, 1e-3]',
        "space.reconstruction_weight: must be left out: no decoder is trained",
    ),
    (
        'network = "lenet5"\n[space]\nreconstruction_weight = [1e-4, 1e-3]',
        "space.reconstruction_weight: must be left out: no decoder is trained",
    ),
    ("[space]\nlr_max = 0.01", "space.lr_max: must be a range [lowest, highest], got 0.01"),
    ("[space]\nlr_max = []", "space.lr_max: must be a range [lowest, highest], got []"),
    ("[space]\nlr_max = [0.01]", "space.lr_max: must be a range [lowest, highest], got [0.01]"),
    (
        "[space]\nlr_max = [0.1, 0.01]",
        "space.lr_max: must rise from lowest to highest, got [0.1, 0.01]",
    ),
    (
        "[space]\nlr_min = [1e-5, 1e-5]",
        "space.lr_min: must rise from lowest to highest, got [1e-05, 1e-05]",
    ),
    ("[space]\nlr_max = [0, 0.1]", f"space.lr_max: {NUMBER}, got 0"),
    ("[space]\nlr_max = [0.1, true]", f"space.lr_max: {NUMBER}, got true"),
    (
        "[space]\nlr_min = [1e-5, 1e-3]",
        "space.lr_min: must be below lr_max (0.001), got 0.001",
    ),
    (
        "[space]\nlr_min = [1e-5, 1e-3]\nlr_max = [5e-4, 1e-2]",
        "space.lr_min: must be below lr_max (0.0005), got 0.001",
    ),
    (
        "[space]\nlr_max = [5e-5, 1e-2]",
        "lr_min: must be below lr_max (5e-05), got 0.0001",
    ),
    (
        '[space]\nlr_policy = ["fixed"]\nlr_min = [1e-5, 1e-4]',
        "space.lr_min: no chosen policy uses it",
    ),
    ("[space]\nepochs = 3", "space.epochs: must be a list such as [...], got 3"),
    ("[space]\nepochs = []", "space.epochs: must offer at least one choice, got []"),
    ("[space]\nepochs = [2, 2]", "space.epochs: must not repeat a choice, got [2, 2]"),
    ("[space]\nepochs = [0, 2]", f"space.epochs: {WHOLE} 1 to 10000, got 0"),
    ("[space]\nepochs = [2.0]", f"space.epochs: {WHOLE} 1 to 10000, got 2.0"),
    (
        "[space]\ndecay_rate = 0.9",
        "space.decay_rate: must be a range [lowest, highest], got 0.9",
    ),
    (
        "[space]\ndecay_rate = [0.9, 1.0]",
        "space.decay_rate: must be a number above 0 and at most 0.9999, got 1.0",
    ),
    ("[space]\ndecay_steps = [0]", f"space.decay_steps: {WHOLE} 1 to 10000000, got 0"),
    ("[space]\ncycle_epochs = [true]", f"space.cycle_epochs: {WHOLE} 1 to 10000, got true"),
    ("[space]\ncycle_growth = [1.5]", f"space.cycle_growth: {WHOLE} 1 to 10, got 1.5"),
    (
        '[space]\nlr_policy = ["fixed", "warm_restarts"]\ndecay_rate = [0.9, 0.99]',
        "space.decay_rate: no chosen policy uses it",
    ),
    (
        '[space]\nlr_policy = ["one_cycle", "warm_restarts"]\ndecay_steps = [22]',
        "space.decay_steps: no chosen policy uses it",
    ),
    (
        '[space]\nlr_policy = ["one_cycle", "warm_adabatch"]\ncycle_epochs = [1, 2]',
        "space.cycle_epochs: no chosen policy uses it",
    ),
    (
        '[space]\nlr_policy = ["exponential_decay"]\ncycle_growth = [1, 2]',
        "space.cycle_growth: no chosen policy uses it",
    ),
    (
        '[space]\nbatch_policy = ["adabatch"]\nbatch_size = [8, 16]',
        "space.batch_size: no chosen policy uses it",
    ),
    (
        '[space]\nlr_policy = ["warm_adabatch"]\nbatch_size = [8, 16]',
        "space.batch_size: no chosen policy uses it",
    ),
    (
        'network = "lenet5"\n[space]\ndecoder = ["full"]',
        "space.decoder: must be left out: lenet5 has no decoder",
    ),
    (
        'network = "lenet5"\n[space]\nweight_sharing = [true]',
        "space.weight_sharing: must be left out: lenet5 has no weight sharing",
    ),
    # A value beside choices for it.
    *(
        (
            f"{key} = {value}\n[space]\n{key} = {choices}",
            f"{key}: must be either a value or choices in [space], got {value} and {choices}; "
            "leave one of them out",
        )
        for key, value, choices in [
            ("epochs", "4", "[2, 3]"),
            ("epochs", "30", "[30]"),
            ("lr_max", "0.002", "[0.001, 0.1]"),
            ("lr_min", "0.0001", "[1e-05, 0.0002]"),
            ("decay_rate", "0.9", "[0.8, 0.9]"),
            ("decay_steps", "22", "[22, 44]"),
            ("cycle_epochs", "2", "[1, 2]"),
            ("cycle_growth", "2", "[1, 2]"),
            ("reconstruction_weight", "0", "[0, 0.1]"),
        ]
    ),
    (
        'extends = "mnist"\nepochs = 2\n[space]\nepochs = [2, 3]',
        "epochs: must be either a value or choices in [space], got 2 and [2, 3]; "
        "leave one of them out",
    ),
    # Fixed lists.
    ("configuration = 3", "configuration: must be one or more [[configuration]] tables, got 3"),
    ("configuration = []", "configuration: must be one or more [[configuration]] tables, got []"),
    (
        "configuration = [3]",
        "configuration: must be one or more [[configuration]] tables, got one that is 3",
    ),
    (
        "[configuration]",
        "configuration: must be one or more [[configuration]] tables, got a table",
    ),
    (
        f"[space]\n{ONE_LENET}",
        "must have either a [space] to search or a list of [[configuration]], got both",
    ),
    (
        f'network = "lenet5"\n{ONE_LENET}{ONE_LENET}',
        "configuration: must not list a configuration twice",
    ),
    ("[[configuration]]", "configuration 1: lr_policy: must be given"),
]

# The same for one configuration each, of CapsNet with 30 epochs and boundaries 3, 8, 13.
CAPSULES = '\ndecoder = "full"\nweight_sharing = false'
WRONG_CONFIGURATIONS = [
    ("rate = 1", f"rate: unknown key; allowed are {PARAMETER_KEYS}"),
    ('lr_policy = "cosine"', f'lr_policy: must be {LR_POLICIES}, got "cosine"'),
    ("lr_policy = true", f"lr_policy: must be {LR_POLICIES}, got true"),
    (
        'batch_policy = ["constant"]',
        'batch_policy: must be constant or adabatch, got ["constant"]',
    ),
    ("adabatch_exponent = true", f"adabatch_exponent: {WHOLE} 0 to 10, got true"),
    ("adabatch_exponent = 11", f"adabatch_exponent: {WHOLE} 0 to 10, got 11"),
    ("decoder = 1", "decoder: must be full, reduced or none, got 1"),
    ("reconstruction_weight = [0.1]", f"reconstruction_weight: {WEIGHT}, got [0.1]"),
    (
        'lr_policy = "fixed"\nbatch_policy = "constant"\ndecoder = "none"\n'
        "weight_sharing = false\nreconstruction_weight = 0.001",
        "reconstruction_weight: must be left out: no decoder is trained",
    ),
    ("weight_sharing = 0", "weight_sharing: must be true or false, got 0"),
    ("lr_max = [0.1, 0.2]", f"lr_max: {NUMBER}, got [0.1, 0.2]"),
    ("lr_min = true", f"lr_min: {NUMBER}, got true"),
    ("batch_size = true", f"batch_size: {WHOLE} 1 to 65536, got true"),
    (
        'lr_policy = "fixed"\nbatch_policy = "constant"',
        "decoder: must be given for capsnet",
    ),
    (
        'lr_policy = "fixed"\nbatch_policy = "constant"\ndecoder = "full"',
        "weight_sharing: must be given for capsnet",
    ),
    (
        f'lr_policy = "fixed"{CAPSULES}',
        "batch_policy: must be given for fixed",
    ),
    (
        f'lr_policy = "warm_adabatch"\nadabatch_exponent = 2\nbatch_policy = "adabatch"{CAPSULES}',
        "batch_policy: must be left out: warm_adabatch has its own",
    ),
    (
        f'lr_policy = "fixed"\nbatch_policy = "adabatch"{CAPSULES}',
        "adabatch_exponent: must be given for fixed+adabatch",
    ),
    (
        f'lr_policy = "warm_adabatch"{CAPSULES}',
        "adabatch_exponent: must be given for warm_adabatch",
    ),
    (
        f'lr_policy = "fixed"\nbatch_policy = "constant"\nadabatch_exponent = 2{CAPSULES}',
        "adabatch_exponent: must be left out: fixed does not use it",
    ),
    (
        'lr_policy = "fixed"\nbatch_policy = "adabatch"\nadabatch_exponent = 2\nbatch_size = 8'
        + CAPSULES,
        "batch_size: must be left out: fixed+adabatch does not use it",
    ),
    (
        f'lr_policy = "fixed"\nbatch_policy = "constant"\nbatch_size = 60000{CAPSULES}',
        "batch_size: must be at most the 55000 training images, got 60000",
    ),
    (
        f'lr_policy = "fixed"\nbatch_policy = "constant"\nlr_min = 0.0001{CAPSULES}',
        "lr_min: must be left out: fixed does not use it",
    ),
    (
        f'lr_policy = "fixed"\nbatch_policy = "constant"\ndecay_steps = 22{CAPSULES}',
        "decay_steps: must be left out: fixed does not use it",
    ),
    (
        f'lr_policy = "warm_restarts"\nbatch_policy = "constant"\ndecay_rate = 0.9{CAPSULES}',
        "decay_rate: must be left out: warm_restarts does not use it",
    ),
    (
        f'lr_policy = "one_cycle"\nbatch_policy = "constant"\ncycle_epochs = 2{CAPSULES}',
        "cycle_epochs: must be left out: one_cycle does not use it",
    ),
    (
        f'lr_policy = "warm_adabatch"\nadabatch_exponent = 2\ncycle_growth = 2{CAPSULES}',
        "cycle_growth: must be left out: warm_adabatch does not use it",
    ),
    # Its three epochs have no boundary within.
    (
        f'lr_policy = "warm_adabatch"\nadabatch_exponent = 2\nepochs = 3{CAPSULES}',
        "adabatch_exponent: must be left out: warm_adabatch does not use it without a boundary",
    ),
    ("epochs = [3]", f"epochs: {WHOLE} 1 to 10000, got [3]"),
    ("decay_rate = 1.0", f"decay_rate: {DECAY}, got 1.0"),
    (
        f'lr_policy = "one_cycle"\nbatch_policy = "constant"\nlr_min = 0.001{CAPSULES}',
        "lr_min: must be below lr_max (0.001), got 0.001",
    ),
    (
        f'lr_policy = "one_cycle"\nbatch_policy = "constant"\nlr_max = 0.0001{CAPSULES}',
        "lr_min: must be below lr_max (0.0001), got 0.0001",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG_VALUES)
def test_a_wrong_value_gets_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "s.toml", f'name = "s"\n{text}\n')
    assert refusal(path) == f"{path}: {message}"


@pytest.mark.parametrize(("text", "message"), WRONG_CONFIGURATIONS)
def test_a_wrong_configuration_gets_one_line(tmp_path: Path, text: str, message: str) -> None:
    good = f'[[configuration]]\nlr_policy = "fixed"\nbatch_policy = "constant"{CAPSULES}\n'
    policy = "" if "lr_policy" in text else 'lr_policy = "fixed"\n'
    path = write(tmp_path / "s.toml", f'name = "s"\n{good}[[configuration]]\n{policy}{text}\n')
    assert refusal(path) == f"{path}: configuration 2: {message}"


@pytest.mark.parametrize("name", ["", "Mnist", "../up", "a b", "a/b", ".hidden", 64 * "a"])
def test_a_wrong_name_gets_one_line(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "s.toml", f'name = "{name}"')
    assert refusal(path) == (
        f"{path}: name: must be 1 to 63 lower-case letters, digits, '.', '_' or '-', the first a "
        f'letter or digit, got "{name}"'
    )
    write(path, "name = 3")
    assert refusal(path) == f"{path}: name: must be a text in quotes, got 3"


def test_a_name_must_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "s.toml", "epochs = 3")
    assert refusal(path) == f"{path}: name: must be given"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name = ", "must be valid TOML: Invalid value (at end of document)"),
        (b'name = "s"\nepochs 3', "must be valid TOML: Expected '=' after a key"),
        (b'name = "s"\nname = "t"', "must be valid TOML: Cannot overwrite a value"),
        (b"\x7fELF\x02\x01\x01\x00", "must be valid TOML: Invalid statement"),
        (b"\x00\x01\x02", "must be valid TOML: Invalid statement"),
        (b'name = "\xe9t\xe9"', "must be UTF-8 text, got another byte at 8"),
        (b"\x89PNG\r\n\x1a\n", "must be UTF-8 text, got another byte at 0"),
        (b"epochs = 1" + 5000 * b"0", "must be valid TOML: Exceeds the limit (4300 digits)"),
        (b"epochs = " + 100_000 * b"[", "must be valid TOML: nested too deeply"),
        (
            b"#" * 1_000_001,
            "must be a study file of at most 1000000 bytes, got a larger one",
        ),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else "",
)
def test_what_is_no_toml_gets_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    assert refusal(path).startswith(f"{path}: {message}")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole of a tebibyte
    assert refusal(path).endswith("got a larger one")


def test_a_file_of_exactly_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    text = b'name = "s"\n'
    path.write_bytes(text + b"#" * (1_000_000 - len(text)))
    assert load_study(str(path)).name == "s"


@pytest.mark.parametrize(
    ("name", "came"),
    [
        ("absent.toml", "no such file"),
        ("mnist2", "no such file"),
        ("folder", "a folder"),
        ("", "a folder"),
        ("pipe", "no such file"),
        (300 * "a", "File name too long"),
    ],
)
def test_what_is_no_file_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, came: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError) as caught:
        load_study(name)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith('study "')
    assert message.endswith(f" must be a study file or one of {SHIPPED}; got {came}")


def test_an_unreadable_file_gets_one_line() -> None:
    # A regular file whose first page nobody can read, not even root.
    path = Path("/proc/self/mem")
    assert refusal(path, UsageError) == f"{path}: must be readable, got Input/output error"


def test_extends_must_not_lead_back_to_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "a.toml", 'extends = "a.toml"')
    assert refusal(path) == f'{path}: extends: must not lead back to itself, got "a.toml"'
    write(path, 'extends = "b.toml"')
    other = write(tmp_path / "b.toml", 'extends = "./a.toml"')
    assert refusal(path) == f'{other}: extends: must not lead back to itself, got "./a.toml"'
    other.unlink()
    other.symlink_to(path)
    assert refusal(path) == f'{path}: extends: must not lead back to itself, got "b.toml"'


def test_a_shipped_name_comes_before_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mnist", 'name = "other"')
    assert load_study("mnist").name == "mnist"
    assert load_study("./mnist").name == "other"
    assert find_study("mnist").is_file()


def test_a_study_that_extends_another_is_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "short-one.toml"
    path.write_text('extends = "mnist"\nepochs = 2\nboundaries = [1]\n')
    assert load_study(str(path)).name == "short-one"
    path.write_text('extends = "mnist"\nname = "other"\n')
    assert load_study(str(path)).name == "other"


def test_a_file_name_that_cannot_be_a_study_name_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / "My Study.toml"
    path.write_text('extends = "mnist"\n')
    with pytest.raises(DefinitionError, match=r"My Study\.toml: name: must be 1 to 63 lower-case"):
        load_study(str(path))


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + b'extends = "mnist"\r\nepochs = 2\r\n')
    assert load_study(str(path)).epochs == 2

"""Whether the keys of a study fit together; each by itself was checked before."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fastrcaps_search.definition import checks
from fastrcaps_search.definition.batch_policies import BATCH_POLICIES
from fastrcaps_search.definition.choices import Decoder, RoutingGradient
from fastrcaps_search.definition.lr_policies import LR_POLICIES
from fastrcaps_search.definition.parameters import (
    RECONSTRUCTION_WEIGHT,
    TRIAL_PARAMETERS,
    TrialParameters,
)
from fastrcaps_search.definition.space import NETWORK_KEYS, Space
from fastrcaps_search.errors import DefinitionError

if TYPE_CHECKING:
    from fastrcaps_search.definition.study import StudyDefinition


def check_consistency(definition: StudyDefinition) -> None:
    """Refuse what cannot be trained.

    Raises:
        DefinitionError: With the key, what came and what is allowed.
    """
    space, listed = definition.space, definition.configurations
    if (space is None) == (not listed):
        raise DefinitionError(
            "must have either a [space] to search or a list of [[configuration]], "
            f"got {'neither' if space is None else 'both'}"
        )
    whole = definition.whole_split
    if definition.train_images is not None and definition.train_images > whole:
        must = f"be at most the training split's {whole}"
        raise checks.wrong(definition.train_images, "train_images", must)
    _check_network(definition)
    _check_batch(definition, definition.batch_size, "batch_size")
    for index, parameters in enumerate(listed, start=1):
        _check_listed(definition, parameters, f"configuration {index}: ")
    if space is not None:
        _check_space(definition, space)


def _check_network(definition: StudyDefinition) -> None:
    settings = definition.architecture.settings
    is_last = definition.routing_gradient is RoutingGradient.LAST
    if is_last and "routing_gradient" not in settings:
        raise DefinitionError(
            f"must be full: {definition.network} has no routing", key="routing_gradient"
        )
    weighs = definition.reconstruction_weight != RECONSTRUCTION_WEIGHT
    if weighs and "reconstruction_weight" not in settings:
        raise DefinitionError(
            f"must be left out: {definition.network} has no decoder", key="reconstruction_weight"
        )


def _check_batch(definition: StudyDefinition, size: int | None, key: str) -> None:
    if size is not None and size > definition.split_size:
        raise checks.wrong(size, key, f"be at most the {definition.split_size} training images")


def _check_below(lr_min: float, lr_max: float, *, key: str) -> None:
    if lr_min >= lr_max:
        raise DefinitionError(f"must be below lr_max ({lr_max:g}), got {lr_min:g}", key=key)


def _check_choices(
    definition: StudyDefinition,
    chosen: Space | TrialParameters,
    decoders: Collection[Decoder | None],
    place: str,
) -> None:
    """Refuse what the network does not have, and the lack of what it has."""
    for key in NETWORK_KEYS:
        is_given = chosen[key] is not None
        if is_given != (key in definition.architecture.settings):
            lacks = f"left out: {definition.network} has no {key.replace('_', ' ')}"
            must = lacks if is_given else f"given for {definition.network}"
            raise DefinitionError(f"must be {must}", key=f"{place}{key}")
    if chosen.reconstruction_weight is not None and {*decoders} <= {None, Decoder.NONE}:
        raise DefinitionError(
            "must be left out: no decoder is trained", key=f"{place}reconstruction_weight"
        )


def _shaping() -> list[str]:
    """Parameters that shape the schedules of some policy."""
    found = {key for policy in LR_POLICIES for key in policy.settings}
    found |= {key for policy in BATCH_POLICIES for key in policy.settings}
    return [key for key in TRIAL_PARAMETERS.names if key in found]


def _check_space(definition: StudyDefinition, space: Space) -> None:
    _check_choices(definition, space, space.decoder or (), "space.")
    for size in space.batch_size or ():
        _check_batch(definition, size, "space.batch_size")
    chosen = [LR_POLICIES[word] for word in space.lr_policy]
    batches = [policy.batch for policy in chosen if policy.batch is not None]
    if len(batches) < len(chosen):
        batches += [BATCH_POLICIES[word] for word in space.batch_policy]
    used = {key for each in chosen for key in each.settings}
    used |= {key for each in batches for key in each.settings}
    for key in _shaping():
        # Those with usual choices are there whether or not a file names them.
        if key not in used and space[key] and not TRIAL_PARAMETERS[key].choices:
            raise DefinitionError("no chosen policy uses it", key=f"space.{key}")
    if "lr_min" in used:
        highest_min = space.lr_min[1] if space.lr_min else definition.lr_min
        lowest_max = space.lr_max[0] if space.lr_max else definition.lr_max
        key = "space.lr_min" if space.lr_min else "lr_min"
        _check_below(highest_min, lowest_max, key=key)


def _check_listed(definition: StudyDefinition, parameters: TrialParameters, place: str) -> None:
    _check_choices(definition, parameters, [parameters.decoder], place)
    lr, batch = parameters.lr, parameters.batch
    if (lr.batch is None) == (parameters.batch_policy is None):
        wrong = f"left out: {lr.name} has its own" if lr.batch else f"given for {lr.name}"
        raise DefinitionError(f"must be {wrong}", key=f"{place}batch_policy")
    within = batch.settings_within(definition.boundaries_within(parameters.epochs))
    for key in _shaping():
        used = key in lr.settings or key in within
        if parameters[key] is not None and not used:
            why = " without a boundary" if key in batch.settings else ""
            raise DefinitionError(
                f"must be left out: {parameters.policy} does not use it{why}", key=f"{place}{key}"
            )
        if used and definition.setting(parameters, key) is None:
            raise DefinitionError(f"must be given for {parameters.policy}", key=f"{place}{key}")
    _check_batch(definition, parameters.batch_size, f"{place}batch_size")
    if "lr_min" in lr.settings:
        low, high = (definition.setting(parameters, key) for key in ("lr_min", "lr_max"))
        is_own = parameters.lr_min is not None or parameters.lr_max is not None
        _check_below(low, high, key=f"{place}lr_min" if is_own else "lr_min")

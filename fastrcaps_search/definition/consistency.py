"""Whether the keys of a study fit together; each by itself was checked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    if definition.train_images is not None and definition.train_images > definition.whole_split:
        raise DefinitionError(
            f"must be at most the training split's {definition.whole_split}, "
            f"got {definition.train_images}",
            key="train_images",
        )
    _check_network(definition)
    _check_batch(definition, definition.batch_size, "batch_size")
    _check_rates(definition)
    for index, parameters in enumerate(listed, start=1):
        _check_listed(definition, parameters, f"configuration {index}: ")
    if space is not None:
        _check_space(definition, space)


def _check_network(definition: StudyDefinition) -> None:
    settings = definition.architecture.settings
    if definition.routing_gradient is RoutingGradient.LAST and "routing_gradient" not in settings:
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
        raise DefinitionError(
            f"must be at most the {definition.split_size} training images, got {size}", key=key
        )


def _check_rates(definition: StudyDefinition) -> None:
    space = definition.space
    highest_min = space.lr_min[1] if space and space.lr_min else definition.lr_min
    lowest_max = space.lr_max[0] if space and space.lr_max else definition.lr_max
    # Configurations that name a rate of their own are checked one by one.
    policies = [
        parameters.lr_policy
        for parameters in definition.configurations
        if parameters.lr_min is None and parameters.lr_max is None
    ]
    policies += space.lr_policy if space else ()
    if any("lr_min" in LR_POLICIES[policy].settings for policy in policies):
        key = "space.lr_min" if space and space.lr_min else "lr_min"
        _check_below(highest_min, lowest_max, key=key)


def _check_below(lr_min: float, lr_max: float, *, key: str) -> None:
    if lr_min >= lr_max:
        raise DefinitionError(f"must be below lr_max ({lr_max:g}), got {lr_min:g}", key=key)


def _check_network_key(definition: StudyDefinition, key: str, place: str, *, given: bool) -> None:
    """Refuse a parameter that the network does not have, and the lack of one that it has."""
    if given == (key in definition.architecture.settings):
        return
    wrong = f"must be left out: {definition.network} has no {key.replace('_', ' ')}"
    raise DefinitionError(
        wrong if given else f"must be given for {definition.network}", key=f"{place}{key}"
    )


def _shaping() -> set[str]:
    """Parameters that shape the schedules of some policy."""
    found = {key for policy in LR_POLICIES for key in policy.settings}
    return found | {key for policy in BATCH_POLICIES for key in policy.settings}


def _check_space(definition: StudyDefinition, space: Space) -> None:
    for key in NETWORK_KEYS:
        _check_network_key(definition, key, "space.", given=bool(space[key]))
    if space.reconstruction_weight and set(space.decoder) <= {Decoder.NONE}:
        raise DefinitionError(
            "must be left out: no decoder is trained", key="space.reconstruction_weight"
        )
    for size in space.batch_size or ():
        _check_batch(definition, size, "space.batch_size")
    chosen = [LR_POLICIES[word] for word in space.lr_policy]
    batches = [policy.batch for policy in chosen if policy.batch is not None]
    if len(batches) < len(chosen):
        batches += [BATCH_POLICIES[word] for word in space.batch_policy]
    used = {key for each in chosen for key in each.settings}
    used |= {key for each in batches for key in each.settings}
    for key in _shaping() - used:
        # Those with usual choices are there whether or not a file names them.
        if space[key] and not TRIAL_PARAMETERS[key].choices:
            raise DefinitionError("no chosen policy uses it", key=f"space.{key}")


def _check_listed(definition: StudyDefinition, parameters: TrialParameters, place: str) -> None:
    for key in NETWORK_KEYS:
        _check_network_key(definition, key, place, given=parameters[key] is not None)
    if parameters.reconstruction_weight is not None and not parameters.reconstructs:
        raise DefinitionError(
            "must be left out: no decoder is trained", key=f"{place}reconstruction_weight"
        )
    lr, batch = parameters.lr, parameters.batch
    if (lr.batch is None) == (parameters.batch_policy is None):
        wrong = f"left out: {lr.name} has its own" if lr.batch else f"given for {lr.name}"
        raise DefinitionError(f"must be {wrong}", key=f"{place}batch_policy")
    within = batch.settings_within(definition.boundaries_within(parameters.epochs))
    for key in TRIAL_PARAMETERS.names:
        if key not in _shaping():
            continue
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
        _check_below(low, high, key=f"{place}lr_min")

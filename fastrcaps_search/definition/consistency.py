"""Whether the keys of a study fit together; each by itself was checked before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastrcaps_search.definition.choices import (
    CAPSULE_KEYS,
    CURVE_KEYS,
    BatchPolicy,
    Decoder,
    LrPolicy,
    RoutingGradient,
)
from fastrcaps_search.definition.parameters import RECONSTRUCTION_WEIGHT, TrialParameters
from fastrcaps_search.errors import DefinitionError

if TYPE_CHECKING:
    from fastrcaps_search.definition.space import Space
    from fastrcaps_search.definition.study import StudyDefinition


def check_consistency(definition: StudyDefinition) -> None:
    """Refuse what cannot be trained.

    Raises:
        DefinitionError: With the key, what came and what is allowed.
    """
    if (definition.space is None) == (not definition.configurations):
        raise DefinitionError(
            "must have either a [space] to search or a list of [[configuration]], "
            f"got {'neither' if definition.space is None else 'both'}"
        )
    if definition.train_images is not None and definition.train_images > definition.whole_split:
        raise DefinitionError(
            f"must be at most the training split's {definition.whole_split}, "
            f"got {definition.train_images}",
            key="train_images",
        )
    routes = definition.network.has_capsules
    if definition.routing_gradient is RoutingGradient.LAST and not routes:
        raise DefinitionError("must be full: lenet5 has no routing", key="routing_gradient")
    weighs = definition.reconstruction_weight != RECONSTRUCTION_WEIGHT
    if weighs and not definition.network.has_capsules:
        raise DefinitionError(
            f"must be left out: {definition.network} has no decoder", key="reconstruction_weight"
        )
    _check_batch_sizes(definition)
    _check_rates(definition)
    for index, parameters in enumerate(definition.configurations, start=1):
        _check_listed(definition, parameters, f"configuration {index}")
    _check_space(definition)


def _check_batch_sizes(definition: StudyDefinition) -> None:
    sizes: dict[str, tuple[int, ...]] = {"batch_size": (definition.batch_size,)}
    if definition.space is not None and definition.space.batch_size:
        sizes["space.batch_size"] = definition.space.batch_size
    for key, values in sizes.items():
        for value in values:
            if value > definition.split_size:
                raise DefinitionError(
                    f"must be at most the {definition.split_size} training images, got {value}",
                    key=key,
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
    if any(policy.uses_lr_min for policy in policies):
        key = "space.lr_min" if space and space.lr_min else "lr_min"
        _check_below(highest_min, lowest_max, key=key)


def _check_below(lr_min: float, lr_max: float, *, key: str) -> None:
    if lr_min >= lr_max:
        raise DefinitionError(f"must be below lr_max ({lr_max:g}), got {lr_min:g}", key=key)


def _check_space(definition: StudyDefinition) -> None:
    space = definition.space
    if space is None:
        return
    for key in CAPSULE_KEYS:
        given = bool(getattr(space, key))
        if given and not definition.network.has_capsules:
            raise DefinitionError(
                f"must be left out: {definition.network} has no capsules", key=f"space.{key}"
            )
        if definition.network.has_capsules and not given:
            raise DefinitionError(f"must be given for {definition.network}", key=f"space.{key}")
    for key in CURVE_KEYS:
        if getattr(space, key) and not any(key in p.settings for p in space.lr_policy):
            raise DefinitionError("no chosen lr_policy uses it", key=f"space.{key}")
    if space.reconstruction_weight and set(space.decoder) <= {Decoder.NONE}:
        raise DefinitionError(
            "must be left out: no decoder is trained", key="space.reconstruction_weight"
        )
    if space.batch_size is not None:
        _check_constant_batch(space)


def _check_constant_batch(space: Space) -> None:
    if BatchPolicy.CONSTANT not in space.batch_policy:
        raise DefinitionError(
            "needs the constant batch policy, which space.batch_policy leaves out",
            key="space.batch_size",
        )
    if set(space.lr_policy) == {LrPolicy.WARM_ADABATCH}:
        raise DefinitionError(
            "needs a policy with a constant batch; warm_adabatch has none",
            key="space.batch_size",
        )


def _check_listed_capsules(
    definition: StudyDefinition, parameters: TrialParameters, refuse: Callable[[str, str], None]
) -> None:
    for key in CAPSULE_KEYS:
        given = getattr(parameters, key) is not None
        if definition.network.has_capsules != given:
            refuse(key, f"must be {'left out' if given else 'given'} for {definition.network}")
    if parameters.reconstruction_weight is not None and not parameters.reconstructs:
        refuse("reconstruction_weight", "must be left out: no decoder is trained")


def _check_listed(definition: StudyDefinition, parameters: TrialParameters, place: str) -> None:
    def refuse(key: str, message: str) -> None:
        raise DefinitionError(message, key=f"{place}: {key}")

    _check_listed_capsules(definition, parameters, refuse)
    warm = parameters.lr_policy is LrPolicy.WARM_ADABATCH
    if warm != (parameters.batch_policy is None):
        refuse("batch_policy", "must be left out for warm_adabatch and given for any other")
    needs = parameters.adapts_batch and bool(definition.boundaries_within(parameters.epochs))
    if needs != (parameters.adabatch_exponent is not None):
        verb = "given where" if needs else "left out unless"
        refuse("adabatch_exponent", f"must be {verb} the batch size adapts")
    if parameters.batch_size is not None and parameters.adapts_batch:
        refuse("batch_size", "must be left out where the batch size adapts")
    if parameters.batch_size is not None and parameters.batch_size > definition.split_size:
        refuse(
            "batch_size",
            f"must be at most the {definition.split_size} training images, "
            f"got {parameters.batch_size}",
        )
    for key in [key for key in CURVE_KEYS if key not in parameters.lr_policy.settings]:
        if getattr(parameters, key) is not None:
            refuse(key, f"must be left out: {parameters.lr_policy} does not use it")
    _check_listed_rates(definition, parameters, place)


def _check_listed_rates(
    definition: StudyDefinition, parameters: TrialParameters, place: str
) -> None:
    low, high = (definition.setting(parameters, key) for key in ("lr_min", "lr_max"))
    if parameters.lr_policy.uses_lr_min:
        _check_below(low, high, key=f"{place}: lr_min")

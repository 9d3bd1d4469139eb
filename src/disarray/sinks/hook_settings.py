"""The `[hooks]` settings and the `[[hook]]` tables of a configuration as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from disarray.config import read_toml, redact
from disarray.control.hooks import register_hooks
from disarray.errors import ConfigError, DisarrayError, UnknownNameError
from disarray.model.description.hook import Mail, Webhook
from disarray.model.description.hook_reader import read_hooks
from disarray.model.description.secret import SecretSource
from disarray.model.description.spec_table import MisfitError, Problems, near_miss
from disarray.model.duration import SECOND
from disarray.model.outgoing_addresses import AllowList, read_allow_list
from disarray.secret import read_secret
from disarray.sinks.hook_webhook import url_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.hook import Hook


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """The hooks of a project, where they may connect to, and how often what waits is looked for; in seconds."""

    hooks: tuple[Hook, ...] = ()
    allow: AllowList = field(default_factory=AllowList)
    every_seconds: float = 2.0
    check_seconds: int = 60


def hook_settings(config: Config, datasets: Mapping[str, Dataset]) -> HookSettings:
    """Read and checked as a whole: `SpecError` names every fault."""
    try:
        allow = read_allow_list(config.words("hooks.allow"))
    except MisfitError as misfit:
        raise ConfigError(
            f"{config.origin('hooks.allow')}: hooks.allow: expected {misfit.expected}, found {misfit.found!r}. "
            "Nothing was changed."
        ) from None
    return HookSettings(
        hooks=_configured_hooks(config, datasets.values(), allow),
        allow=allow,
        every_seconds=config.length_us("hooks.every") / SECOND,
        check_seconds=config.length_us("hooks.check_every") // SECOND,
    )


def find_hook(settings: HookSettings, name: str) -> Hook:
    """The hook of that name; an unknown name is answered with the nearest."""
    for hook in settings.hooks:
        if hook.name == name:
            return hook
    known = [hook.name for hook in settings.hooks]
    raise UnknownNameError(f"there is no hook '{name}' in disarray.toml; {near_miss(name, known)}")


def register_all_hooks(connection: Connection, hooks: Collection[Hook]) -> int:
    """Make the hooks of a configuration known to the database; how many there are."""
    return register_hooks(connection, [hook_document(hook) for hook in hooks])


def hook_document(hook: Hook) -> dict[str, Any]:
    """A hook as the database keeps it: no secret, and no password of a url."""
    url = hook.target.url if isinstance(hook.target, Webhook) else None
    shown_url = redact(url) if isinstance(url, str) else None
    return {
        "hook_name": hook.name,
        "kind": hook.kind.value,
        "causes": [cause.value for cause in hook.causes],
        "subject_patterns": list(hook.subject_patterns),
        "dataset_patterns": list(hook.dataset_patterns),
        "larger_than": dict(hook.larger_than),
        "no_data_since_seconds": _seconds(hook.no_data_since_us),
        "stale_longer_than_seconds": _seconds(hook.stale_longer_than_us),
        "definition": hook.definition(shown_url=shown_url),
        "definition_digest": hook.digest(),
    }


def refuse_unusable_hooks(settings: HookSettings) -> None:
    """Refuse to start where a secret is missing or a url that is kept as a secret may not be reached."""
    faults = [f"hook {hook.name}: {fault}" for hook in settings.hooks for fault in _faults(hook, settings)]
    if faults:
        raise ConfigError(
            "\n".join([*faults, "Nothing was sent, and what waits for these hooks goes on waiting"])
        )


def _faults(hook: Hook, settings: HookSettings) -> Iterator[str]:
    target = hook.target
    sources: list[SecretSource] = []
    if isinstance(target, Webhook):
        sources = [each for each in (target.secret,) if each is not None]
        try:
            url_of(target, settings.allow)
        except DisarrayError as error:
            yield str(error)
    elif isinstance(target, Mail):
        sources = [each for each in (target.user, target.password) if isinstance(each, SecretSource)]
    for source in sources:
        try:
            read_secret(source)
        except ConfigError as error:
            yield str(error)


def _configured_hooks(config: Config, datasets: Collection[Dataset], allow: AllowList) -> tuple[Hook, ...]:
    path = config.dataset_file
    try:
        _, document = read_toml(path, shown=str(path))
    except FileNotFoundError:
        return ()
    problems = Problems(str(path))
    hooks = read_hooks(
        document, problems=problems, datasets=datasets, allow=allow, folder=path.absolute().parent
    )
    problems.raise_if_any()
    return hooks


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND

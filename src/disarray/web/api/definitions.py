"""What is described: datasets, metrics, rollups, and the channels that a subject has."""

from dataclasses import dataclass

from disarray.queries import channels, datasets, definitions
from disarray.queries.channels import Channels
from disarray.queries.datasets import Datasets
from disarray.queries.definitions import MetricsDefined, RollupsDefined
from disarray.web.parameters import InDataset, PageAsked, Subject
from disarray.web.route import API, Call, Route, Scope


@dataclass(frozen=True, kw_only=True)
class DefinitionsAsked(PageAsked):
    """Of which dataset."""

    dataset: InDataset | None = None


@dataclass(frozen=True, kw_only=True)
class ChannelsAsked(PageAsked):
    """Of which subject."""

    subject_key: Subject
    dataset: InDataset | None = None


def list_datasets(call: Call, asked: PageAsked) -> Datasets:
    """Every dataset, by name."""
    return datasets.list_datasets(call.connection, call.sources.datasets, **vars(asked))


def list_metrics_defined(call: Call, asked: DefinitionsAsked) -> MetricsDefined:
    """Every metric, by dataset."""
    return definitions.list_metrics(call.sources.datasets, **vars(asked))


def list_rollups_defined(call: Call, asked: DefinitionsAsked) -> RollupsDefined:
    """Every rollup, by dataset."""
    return definitions.list_rollups(call.sources.datasets, **vars(asked))


def list_channels(call: Call, asked: ChannelsAsked) -> Channels:
    """Channels of a subject."""
    return channels.list_channels(call.connection, call.sources.datasets, **vars(asked))


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/datasets",
        scope=Scope.READ,
        summary="The datasets: where their readings live, and what is computed from them",
        asks=PageAsked,
        answers=Datasets,
        handle=list_datasets,
    ),
    Route(
        method="GET",
        path=f"{API}/metrics-defined",
        scope=Scope.READ,
        summary="Metrics as they are defined, by dataset",
        asks=DefinitionsAsked,
        answers=MetricsDefined,
        handle=list_metrics_defined,
    ),
    Route(
        method="GET",
        path=f"{API}/rollups-defined",
        scope=Scope.READ,
        summary="Rollups as they are defined, by dataset",
        asks=DefinitionsAsked,
        answers=RollupsDefined,
        handle=list_rollups_defined,
    ),
    Route(
        method="GET",
        path=f"{API}/channels",
        scope=Scope.READ,
        summary="The channels of a subject, and which metrics each has",
        asks=ChannelsAsked,
        answers=Channels,
        handle=list_channels,
        refusals=(404,),
    ),
)

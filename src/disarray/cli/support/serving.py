"""The REST server of a project, put together: for `disarray api` alone, and for whoever runs it beside a worker."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from disarray.cli.support.local_token import FILE_NAME, local_token
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake
    from disarray.web.http_server import Server
    from disarray.web.route import Preview

log = logging.getLogger("disarray.api")


class RestServer:
    """Answers between `start` and `stop`, with a pool of its own.

    Only on the embedded database, and bound to this machine, does it take the token of the state folder.
    """

    def __init__(
        self, config: Config, *, dsn: str, datasets: Mapping[str, Dataset], require_token: bool = False
    ) -> None:
        self._config = config
        self._dsn = dsn
        self._datasets = datasets
        self._require_token = require_token
        self._open = ExitStack()
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        assert self._server is not None, "the server was not started"
        return self._server.url

    def start(self) -> None:
        """Listen; returns once requests are answered."""
        try:
            from disarray.control.connections import open_pool
            from disarray.store.lake import Lake
            from disarray.web.access import Access, is_loopback
            from disarray.web.app import SESSION_LIMITS, Limits, create_app
            from disarray.web.http_server import Server
            from disarray.web.route import Sources
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"the REST server needs {error.name}; install it with `pip install 'disarray-pipeline[web]'`"
            ) from error
        config, limits = self._config, Limits()
        host, port, lake = config.text("api.host"), config.number("api.port"), Lake(config.lake_root)
        is_embedded = config.dsn is None and is_loopback(host) and not self._require_token
        with ExitStack() as stack:
            pool = stack.enter_context(
                open_pool(
                    self._dsn,
                    limits=SESSION_LIMITS,
                    application_name="disarray api",
                    max_size=limits.threads,
                )
            )
            sources = Sources(pool, lake, self._datasets, preview=_previewer(self._datasets, lake))
            token = local_token(config.state_dir) if is_embedded else None
            app = create_app(sources, access=Access(local_token=token), limits=limits)
            self._server = Server(app, host=host, port=port)
            self._server.start()
            if token is not None:
                log.info(
                    'to call it: curl -H "Authorization: Bearer $(cat %s)" %s/api/v1/status',
                    config.state_dir / FILE_NAME,
                    self._server.url,
                )
            stack.callback(self._server.stop)
            self._open = stack.pop_all()

    def stop(self) -> None:
        """Let requests that are under way end, for a few seconds, and stop."""
        self._open.close()


class Previewer:
    """Previews as the command line makes them; imported late, because they read and scan as a worker does."""

    def __init__(self, datasets: Mapping[str, Dataset], lake: Lake) -> None:
        self._datasets = datasets
        self._lake = lake

    def __call__(self, connection: Connection, uri: str, part: str | None) -> Preview:
        from disarray.cli.support.impact import document, impact_of
        from disarray.control.quarantine import choose_part, list_quarantine
        from disarray.web.route import Preview
        from disarray.worker.passes.rehearsal import rehearse_release

        waiting = choose_part(list_quarantine(connection, source_uri=uri), uri, part)
        rehearsal = rehearse_release(connection, waiting, datasets=self._datasets, lake=self._lake)
        plans = [document(impact_of(connection, rehearsed)) for rehearsed in rehearsal.plans]
        return Preview(plans, dict(rehearsal.failures))


def _previewer(datasets: Mapping[str, Dataset], lake: Lake) -> Previewer | None:
    try:
        import disarray.worker.passes.rehearsal  # noqa: F401 (is the worker's extra installed?)
    except ModuleNotFoundError:
        return None
    return Previewer(datasets, lake)

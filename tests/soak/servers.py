"""A PostgreSQL and a RabbitMQ of the soak's own, each with a way to die at once and to come back."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from disarray import embedded
from disarray.control import connections, migrations

if TYPE_CHECKING:
    from collections.abc import Mapping

# Not the wrapper on the PATH: it changes the account, and knows one node per machine.
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ONE_SCHEDULER = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
_ANSWER_SECONDS = 90.0


class Postgres:
    """The embedded server of a folder, safe at a power cut as it is everywhere."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._turn = threading.Lock()
        self.dsn = embedded.start(state).dsn
        with connections.connect(self.dsn) as connection:
            migrations.migrate(connection)

    @property
    def socket(self) -> str:
        """Where it listens."""
        host = psycopg.conninfo.conninfo_to_dict(self.dsn)["host"]
        return str(Path(str(host)) / ".s.PGSQL.5432")

    def crash(self, *, away_seconds: float) -> None:
        """Stop it as `pg_ctl stop --mode immediate` does, and start it again: it recovers from its log."""
        with self._turn:
            server = embedded.start(self._state)
            os.kill(server.pid, signal.SIGQUIT)
            time.sleep(away_seconds)
            embedded.start(self._state)

    def end(self) -> None:
        """Stop it for good."""
        with self._turn:
            embedded.stop(self._state)


class Broker:
    """A RabbitMQ node with ports, a home and a port mapper of its own; the machine's node is not touched."""

    def __init__(self, folder: Path) -> None:
        if not RABBITMQ.exists():
            raise FileNotFoundError(f"{RABBITMQ} is not there: install rabbitmq-server")
        folder.mkdir()
        self._log = folder / "rabbitmq.out"
        self.port, distribution, mapper = free_port(), free_port(), free_port()
        (folder / "plugins").write_text("[].\n")
        (folder / "rabbitmq.conf").write_text(f"listeners.tcp.local = 127.0.0.1:{self.port}\n")
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"soak{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ONE_SCHEDULER,
        }
        self._turn = threading.Lock()
        # In the foreground and ours: the one that Erlang starts by itself would outlive us.
        self._mapper = _start(["epmd", "-port", str(mapper)], self._environment, self._log)
        self._node = self._start_node()

    def crash(self, *, away_seconds: float) -> None:
        """Kill the node with -9, and start it again."""
        with self._turn:
            _kill_group(self._node)
            time.sleep(away_seconds)
            self._node = self._start_node()

    def end(self) -> None:
        """Stop it for good."""
        with self._turn:
            _kill_group(self._node)
            _kill_group(self._mapper)

    def _start_node(self) -> subprocess.Popen[bytes]:
        node = _start([str(RABBITMQ)], self._environment, self._log)
        give_up_at = time.monotonic() + _ANSWER_SECONDS
        while not _speaks_amqp(self.port):
            if node.poll() is not None or time.monotonic() > give_up_at:
                _kill_group(node)
                raise RuntimeError(f"RabbitMQ did not start; {self._log} says why")
            time.sleep(0.2)
        return node


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _speaks_amqp(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.settimeout(5)
            client.sendall(b"AMQP\x00\x00\x09\x01")
            return client.recv(1) == b"\x01"
    except OSError:
        return False


def _start(command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=environment, cwd=log.parent, stdout=output, stderr=output, start_new_session=True
        )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=30)

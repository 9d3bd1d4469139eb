"""A real S3 server on this machine, which a test may kill and start again with what it had."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sysconfig
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from pyarrow import fs

ACCESS, SECRET = "DISARRAY_TEST_S3_ACCESS_KEY", "DISARRAY_TEST_S3_SECRET_KEY"
KEYS = {"loader": ("LOADERKEYID", "loader-secret-key"), "reader": ("READERKEYID", "reader-secret-key")}
BUCKET = "plant"


@dataclass
class ObjectStore:
    """SeaweedFS with one bucket, and two who may use it: one of them may only read."""

    folder: Path
    ports: list[int] = field(default_factory=lambda: _free_ports(8))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def target(self, path: str, bucket: str = BUCKET) -> str:
        """The lines of a destination in this store."""
        return (
            f'delta = "s3://{bucket}/{path}"\nendpoint = "{self.endpoint}"\n'
            f'access_key = {{ env = "{ACCESS}" }}\nsecret_key = {{ env = "{SECRET}" }}'
        )

    def start(self) -> None:
        """Start the server; returns when it answers."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        rights = {"loader": ["Admin", "Read", "Write", "List"], "reader": ["Read", "List"]}
        identities = [
            {"name": who, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": rights[who]}
            for who, (key, secret) in KEYS.items()
        ]
        (self.folder / "s3.json").write_text(json.dumps({"identities": identities}))
        names = ["s3", "master", "volume", "filer"]
        ports = [f"-{name}.port={port}" for name, port in zip(names, self.ports[:4], strict=True)]
        ports += [f"-{name}.port.grpc={port}" for name, port in zip(names, self.ports[4:], strict=True)]
        options = [
            f"-dir={self.folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            # By itself it reports to its makers.
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=50",
            "-filer",
            "-s3",
            f"-s3.config={self.folder / 's3.json'}",
            "-s3.autoCreateBucket=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            f"-filer.localSocket={self.folder / 'f.sock'}",
            f"-s3.localSocket={self.folder / 's.sock'}",
        ]
        weed = Path(sysconfig.get_path("scripts")) / "weed"
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [weed, "server", *options, *ports], stdout=log, stderr=log, cwd=self.folder
            )
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        """Whether the bucket is there, made if need be."""
        try:
            with closing(urlopen(self.endpoint)):
                pass
        except HTTPError:
            pass
        except (URLError, OSError):
            return False
        key, secret = KEYS["loader"]
        files = fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            region="us-east-1",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )
        try:
            files.create_dir(BUCKET)
            # A volume may still be on its way.
            with files.open_output_stream(f"{BUCKET}/started") as stream:
                stream.write(b"yes")
        except OSError:
            return False
        return True

    def names(self, path: str) -> list[str]:
        """All objects below a path of the bucket."""
        key, secret = KEYS["loader"]
        files = fs.S3FileSystem(
            access_key=key, secret_key=secret, region="us-east-1", endpoint_override=self.endpoint
        )
        found = files.get_file_info(fs.FileSelector(f"{BUCKET}/{path}", recursive=True))
        return [each.path for each in found if each.type is fs.FileType.File]

    def kill(self) -> None:
        """End the server as a power cut would."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()

"""A remote execution farm on this machine: BuildGrid with its database, and workers with storage of their own.

Bazel --(actions, files)--> BuildGrid --(leases)--> worker --> buildbox-run --> sandbox
                                `-----(files)--> the worker's buildbox-casd --'
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2 import BatchUpdateBlobsRequest, Digest
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2_grpc import ContentAddressableStorageStub

from tools.quiet.console import UserError

# RPCs at once: each action that waits has one, each upload, and each worker. BuildGrid answers those beyond with an
# error.
_RPC_THREADS = 400

# The limit of one message: gRPC's is 4 MiB.
_BATCH_BYTES = 3 << 20
_BATCH_FILES = 2000

# A worker that is silent for so long is taken for dead, and its actions are given to another. Seconds.
_WORKER_TIMEOUT = 10

_CONFIGURATION = """\
server:
  - !channel
    address: "127.0.0.1:{port}"
    insecure-mode: true
authorization:
  method: none
connections:
  - !sql-connection &database
    connection-string: "{database}"
    pool-size: 20
    max-overflow: 40
storages:
  - !disk-storage &files
    path: "{files}"
caches:
  - !lru-action-cache &results
    storage: *files
    max-cached-refs: 1000000
    allow-updates: true
    cache-failed-actions: false
schedulers:
  - !sql-scheduler &scheduler
    sql: *database
    storage: *files
    action-cache: *results
    bot-session-keepalive-timeout: {worker_timeout}
    max-job-attempts: 5
    property-set:
      !dynamic-property-set
      unique-property-keys: [board]
      match-property-keys: [board]
      wildcard-property-keys: []
    assigners:
      - !priority-age-assigner
        count: 1
        interval: 0.2
instances:
  - name: ""
    services:
      - !execution
        scheduler: *scheduler
      - !action-cache
        cache: *results
      - !cas
        storage: *files
      - !bytestream
        storage: *files
thread-pool-size: {threads}
limiter: !limiter
  concurrent-request-limit: {threads}
"""


class FarmError(UserError):
    """A server did not start, or ended; the message names it and where its log is."""


@dataclass(frozen=True)
class Programs:
    """The folders of the servers' programs.

    Attributes:
      buildbox: the folder of buildbox-casd, buildbox-run and buildbox-fuse.
      postgres: the folder of initdb and postgres.
      bwrap: the folder of bwrap, with which buildbox-run makes its sandbox.
    """

    buildbox: Path
    postgres: Path
    bwrap: Path

    def environment(self) -> dict[str, str]:
        """Returns the environment in which they find each other."""
        return dict(os.environ, PATH=f"{self.bwrap}:{self.buildbox}:/usr/bin:/bin")


class Farm:
    """BuildGrid and its storage, running while this is entered; `start_worker` adds workers.

    Args:
      programs: the servers' programs.
      directory: an empty folder of the farm's own, with a short path: it holds sockets.
    """

    def __init__(self, programs: Programs, directory: Path) -> None:
        self._programs = programs
        self._directory = directory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = _free_port()

    def __enter__(self) -> Farm:
        try:
            self._start_server(self._start_database())
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def flags(self) -> list[str]:
        """Returns Bazel's flags for this farm: what a user writes into user.bazelrc."""
        return ["--config=remote", f"--remote_executor=grpc://127.0.0.1:{self.port}"]

    def seed(self, directories: list[Path]) -> int:
        """Uploads the small files of directories in batches, where Bazel needs an RPC each; returns their number."""
        storage = ContentAddressableStorageStub(grpc.insecure_channel(f"127.0.0.1:{self.port}"))
        files = {}
        for path in (Path(name, file) for top in directories for name, _, found in os.walk(top) for file in found):
            if path.is_file() and path.stat().st_size <= _BATCH_BYTES // 2:
                content = path.read_bytes()
                files[hashlib.sha256(content).hexdigest()] = (path, len(content))
        request = BatchUpdateBlobsRequest()
        size = 0
        for digest, (path, length) in files.items():
            if request.requests and (size + length > _BATCH_BYTES or len(request.requests) >= _BATCH_FILES):
                storage.BatchUpdateBlobs(request)
                request, size = BatchUpdateBlobsRequest(), 0
            request.requests.add(digest=Digest(hash=digest, size_bytes=length), data=path.read_bytes())
            size += length
        storage.BatchUpdateBlobs(request)
        return len(files)

    def start_worker(self, name: str, capacity: int = 1, board: str = "") -> None:
        """Starts a worker that runs `capacity` actions at once, with an empty storage of its own.

        Args:
          name: the worker's name.
          capacity: actions at once.
          board: the board that it has a probe of, its platform property.
        """
        folder = self._folder(name)
        (folder / "actions").mkdir()
        casd = f"unix:{folder}/casd.sock"
        remote = f"--cas-remote=http://127.0.0.1:{self.port}"
        casd_program = self._programs.buildbox / "buildbox-casd"
        storage: list[str | Path] = [casd_program, f"--bind={casd}", remote, folder / "files"]
        self._start(f"{name}.casd", storage)
        self._await(f"{name}.casd", lambda: (folder / "casd.sock").exists())
        command: list[str | Path] = [sys.executable, "-m", "tests.remote.worker", "--server", f"127.0.0.1:{self.port}"]
        command += ["--casd", casd, "--run", self._programs.buildbox / "buildbox-run", "--name", name]
        command += ["--capacity", str(capacity), "--directory", folder / "actions", "--journal", self.journal(name)]
        command += ["--board", board] if board else []
        self._start(name, command)

    def stored(self) -> int:
        """Returns the bytes of all files in BuildGrid's storage: inputs, outputs and what describes actions."""
        return sum(path.stat().st_size for path in (self._directory / "files").rglob("*") if path.is_file())

    def journal(self, name: str) -> Path:
        """Returns the file in which a worker writes what it ran, a line of JSON for each action."""
        return self._directory / name / "journal.jsonl"

    def stop(self) -> None:
        """Ends everything."""
        for process in reversed(self._processes.values()):
            _signal(process, signal.SIGTERM)
        for process in reversed(self._processes.values()):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                process.wait()
        self._processes.clear()

    def _start_database(self) -> str:
        """Makes a database in a folder, behind a socket in that folder; returns its address."""
        folder = self._folder("database")
        data = folder / "data"
        make: list[str | Path] = [self._programs.postgres / "initdb", "-D", data, "-U", "postgres"]
        self._run("initdb", [*self._as_user(), *make, "-A", "trust", "--no-sync"])
        # Nothing in it outlives the farm.
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
        serve: list[str | Path] = [self._programs.postgres / "postgres", "-D", data, "-k", folder, *options]
        self._start("postgres", [*self._as_user(), *serve])
        self._await("postgres", lambda: (folder / ".s.PGSQL.5432").exists())
        address = f"postgresql+psycopg2:///postgres?host={folder}&user=postgres"
        deadline = time.monotonic() + _START_SECONDS
        while not self._try("migrate", [*_BGD, "migrate", "apply", address]):
            if time.monotonic() > deadline:
                raise FarmError(f"BuildGrid could not make its tables; see {self._log('migrate')}.")
        return address

    def _as_user(self) -> list[str | Path]:
        # PostgreSQL refuses to run as root.
        if os.geteuid() != 0:
            return []
        namespace = ["--unshare-user", "--uid", "1000", "--gid", "1000"]
        return [self._programs.bwrap / "bwrap", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", *namespace]

    def _start_server(self, database: str) -> None:
        configuration = self._directory / "buildgrid.yml"
        configuration.write_text(
            _CONFIGURATION.format(
                port=self.port,
                files=self._directory / "files",
                database=database,
                worker_timeout=_WORKER_TIMEOUT,
                threads=_RPC_THREADS,
            )
        )
        self._start("buildgrid", [*_BGD, "server", "start", configuration])
        self._await("buildgrid", lambda: _listens(self.port))

    def _folder(self, name: str) -> Path:
        folder = self._directory / name
        folder.mkdir()
        return folder

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _start(self, name: str, command: list[str | Path]) -> None:
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._programs.environment(),
                start_new_session=True,
            )

    def _try(self, name: str, command: list[str | Path]) -> bool:
        with self._log(name).open("ab") as log:
            result = subprocess.run(command, stdout=log, stderr=log, env=self._programs.environment(), check=False)
            return result.returncode == 0

    def _run(self, name: str, command: list[str | Path]) -> None:
        if not self._try(name, command):
            raise FarmError(f"{name} failed; see {self._log(name)}.")

    def _await(self, name: str, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_ready():
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                raise FarmError(f"{name} did not start; see {self._log(name)}.")
            time.sleep(0.1)


# Seconds that a server may take to start.
_START_SECONDS = 120.0

# Runs BuildGrid's command line.
_BGD = [sys.executable, "-c", "from buildgrid.server.app import cli; cli()"]


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

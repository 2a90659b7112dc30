"""A worker for BuildGrid: takes actions from its queue and runs each with buildbox-run.

buildbox-worker does this in a farm, and better; no package index has it. As there, buildbox-casd and buildbox-run stage
an action's inputs, run it in a sandbox without network and upload its outputs. It writes the actions that it ran into a
journal, a line of JSON for each event: `started`, and `completed` with the action's kind (its program's name), the
files and bytes of its inputs, and the seconds it took with staging.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2 import (
    Action,
    ActionResult,
    BatchReadBlobsRequest,
    Command,
    Digest,
    Directory,
)
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2_grpc import ContentAddressableStorageStub
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2, worker_pb2
from buildgrid._protos.google.devtools.remoteworkers.v1test2.bots_pb2_grpc import BotsStub

# Actions use only these of a base Linux (tests/hermetic holds them to it).
_BASE_LINUX = ("/bin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64")

# gRPC's codes for what another worker may try again, and for what it should not.
_UNAVAILABLE = 14


class Inputs:
    """Measures the input trees of actions.

    Args:
      storage: where the trees are.
    """

    def __init__(self, storage: ContentAddressableStorageStub) -> None:
        self._storage = storage
        self._known: dict[str, tuple[int, int]] = {}

    def size(self, root: Digest) -> tuple[int, int]:
        """Returns the files and the bytes of a tree."""
        if root.hash not in self._known:
            directory = Directory()
            directory.ParseFromString(self.read(root))
            below = [self.size(node.digest) for node in directory.directories]
            own = (len(directory.files), sum(node.digest.size_bytes for node in directory.files))
            self._known[root.hash] = tuple(map(sum, zip(own, *below, strict=True)))  # type: ignore[assignment]
        return self._known[root.hash]

    def read(self, digest: Digest) -> bytes:
        """Returns a small blob."""
        if digest.size_bytes == 0:
            return b""
        [response] = self._storage.BatchReadBlobs(BatchReadBlobsRequest(digests=[digest])).responses
        return response.data


class Worker:
    """Runs the leases of one bot session, `capacity` at a time.

    Args:
      bots: BuildGrid's Bots service.
      name: the bot's name, which no other may have at the same time.
      capacity: how many actions run at once.
      run: the command line of buildbox-run but for the action and its result.
      directory: the folder of actions and results while they run.
      inputs: measures their inputs.
      journal: the file for the actions that were run.
      board: the board that it has a probe of; empty: none.
    """

    def __init__(
        self,
        bots: BotsStub,
        name: str,
        capacity: int,
        run: list[str],
        directory: Path,
        inputs: Inputs,
        journal: Path,
        board: str,
    ) -> None:
        self._bots = bots
        self._run = run
        self._directory = directory
        self._inputs = inputs
        self._journal = journal
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._started: set[str] = set()
        self._completed: dict[str, bots_pb2.Lease] = {}
        device = worker_pb2.Device(handle=name)
        if board:
            device.properties.add(key="board", value=board)
        worker = worker_pb2.Worker(devices=[device])
        worker.configs.add(key="capacity", value=str(capacity))
        self._capacity = capacity
        self._session = bots_pb2.BotSession(bot_id=name, status=bots_pb2.OK, worker=worker)

    def serve(self) -> None:
        """Takes leases until the process ends."""
        request = bots_pb2.CreateBotSessionRequest(bot_session=self._session)
        self._session = self._bots.CreateBotSession(request, timeout=_POLL_SECONDS)
        while True:
            self._start_new_leases()
            # If there is room for more, the server answers when there is work; otherwise the next event is a
            # completion.
            full = len(self._session.leases) >= self._capacity
            self._changed.wait(_REPORT_SECONDS if full else 0)
            self._changed.clear()
            with self._lock:
                for lease in self._session.leases:
                    if lease.id in self._completed:
                        lease.CopyFrom(self._completed.pop(lease.id))
            self._session = self._update()

    def _start_new_leases(self) -> None:
        for lease in self._session.leases:
            # BuildGrid counts on a lease's being accepted.
            if lease.id not in self._started and lease.state in (bots_pb2.PENDING, bots_pb2.ACTIVE):
                lease.state = bots_pb2.ACTIVE
                self._started.add(lease.id)
                threading.Thread(target=self._execute, args=(lease.id, lease.payload), daemon=True).start()
        self._started &= {lease.id for lease in self._session.leases}

    def _update(self) -> bots_pb2.BotSession:
        # A completion must not wait for the end of a long poll.
        call = self._bots.UpdateBotSession.future(
            bots_pb2.UpdateBotSessionRequest(name=self._session.name, bot_session=self._session), timeout=_POLL_SECONDS
        )
        while True:
            try:
                return call.result(timeout=_REPORT_SECONDS)
            except grpc.FutureTimeoutError:
                if self._changed.is_set():
                    call.cancel()
                    return self._session
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
                    raise
                time.sleep(_REPORT_SECONDS)
                return self._session

    def _execute(self, name: str, payload: Any) -> None:
        lease = bots_pb2.Lease(id=name, state=bots_pb2.COMPLETED)
        lease.payload.CopyFrom(payload)
        action = Action()
        payload.Unpack(action)
        source = self._directory / f"{name}.action"
        target = self._directory / f"{name}.result"
        source.write_bytes(action.SerializeToString())
        self._note(event="started")
        start = time.monotonic()
        command = [*self._run, f"--action={source}", f"--action-result={target}"]
        status = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
        seconds = time.monotonic() - start
        if status == 0 and target.exists():
            result = ActionResult()
            result.ParseFromString(target.read_bytes())
            lease.result.Pack(result)
        else:
            lease.status.code = _UNAVAILABLE
            lease.status.message = f"buildbox-run ended with status {status}"
        for file in (source, target):
            file.unlink(missing_ok=True)
        with self._lock:
            self._completed[name] = lease
        self._changed.set()
        # Measured last: a tree is read directory by directory the first time.
        if not lease.status.code:
            files, size = self._inputs.size(action.input_root_digest)
            self._note(event="completed", kind=self._kind(action), files=files, bytes=size, seconds=seconds)

    def _kind(self, action: Action) -> str:
        command = Command()
        command.ParseFromString(self._inputs.read(action.command_digest))
        return Path(command.arguments[0]).name

    def _note(self, **event: str | float) -> None:
        with self._lock, self._journal.open("a") as journal:
            journal.write(json.dumps(event) + "\n")


# Seconds that the server may keep an idle worker waiting, and seconds between a busy one's reports.
_POLL_SECONDS = 20.0
_REPORT_SECONDS = 0.1


def _can_mount() -> bool:
    """Returns whether buildbox-casd can mount inputs as a file system of its own, which it always tries."""
    allowed = os.geteuid() == 0 or shutil.which("fusermount3") is not None
    return allowed and os.access("/dev/fuse", os.R_OK | os.W_OK)


def main() -> int:
    """Parses the command line and serves."""
    parser = argparse.ArgumentParser(prog="worker", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", required=True, help="BuildGrid's address, HOST:PORT")
    parser.add_argument("--casd", required=True, help="buildbox-casd's address as buildbox-run takes it")
    parser.add_argument("--run", type=Path, required=True, help="the program buildbox-run")
    parser.add_argument("--name", required=True, help="the worker's name, which no other has")
    parser.add_argument("--capacity", type=int, default=1, help="actions at once (default: 1)")
    parser.add_argument("--directory", type=Path, required=True, help="a folder of its own")
    parser.add_argument("--journal", type=Path, required=True, help="file for what was run")
    parser.add_argument("--board", default="", help="the board that it has a probe of")
    options = parser.parse_args()
    # If /bin is a link into /usr, its target gets mounted there.
    mounts = [f"--ro-bind-mount={Path(path).resolve()}:{path}" for path in _BASE_LINUX if Path(path).is_dir()]
    run = [str(options.run), f"--remote={options.casd}", "--log-level=warning", *mounts]
    if not _can_mount():
        run.append("--staging-mode=copy-or-link")
    bots = BotsStub(grpc.insecure_channel(options.server))
    inputs = Inputs(ContentAddressableStorageStub(grpc.insecure_channel(options.casd)))
    Worker(bots, options.name, options.capacity, run, options.directory, inputs, options.journal, options.board).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

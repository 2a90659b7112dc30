"""Programs through pyOCD."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.artifacts.board.board import Board
from tools.commands.flash.chip import OwnTarget, check_chip
from tools.commands.flash.chips import chip_of_target
from tools.commands.flash.usb import explain_missing_probe
from tools.quiet.console import UserError, comes_from

if TYPE_CHECKING:
    from pyocd.core.session import Session
    from pyocd.core.soc_target import SoCTarget
    from pyocd.coresight.cortex_m import CortexM
    from pyocd.flash.flash import Flash
    from pyocd.probe.debug_probe import DebugProbe

# Bytes that are compared at a time.
_VERIFY_SIZE = 4096

Chunks = Sequence[tuple[int, bytes]]


@dataclass(frozen=True)
class Selection:
    """The probe to use, and information about the chip for pyOCD.

    Attributes:
        probe: unique id of a probe, or its start; None if there is only one.
        pack: the chip vendor's CMSIS pack, for a chip that neither pyOCD nor this project knows.
        algorithm: the board's flash algorithm, an ELF file, if this project has one.
        uf2: whether the board can be programmed without a probe, through its UF2 boot loader.
    """

    probe: str | None = None
    pack: Path | None = None
    algorithm: Path | None = None
    uf2: bool = False


@dataclass(frozen=True)
class Programmed:
    """A board that was programmed.

    Attributes:
        summary: what was done, in a few words.
        chip: the board's chip.
        revision: what its registers say of its revision, and its core's CPUID; empty where nothing could be read.
    """

    summary: str
    chip: str
    revision: str = ""


def list_probes() -> list[str]:
    """Returns the connected probes, unique id and description of each.

    Raises:
        UserError: there is none.
    """
    from pyocd.core.helpers import ConnectHelper

    probes = ConnectHelper.get_all_connected_probes(blocking=False, print_wait_message=False)
    if not probes:
        raise UserError(explain_missing_probe())
    return [f"{probe.unique_id}  {probe.description}" for probe in probes]


def choose_probe(probes: Sequence[DebugProbe], wanted: str | None, *, uf2: bool = False) -> DebugProbe:
    """Returns the probe to use.

    Args:
        probes: the connected probes.
        wanted: unique id of a probe, or its start; None if there is only one.
        uf2: whether the board needs none, see Selection.

    Raises:
        UserError: there is no such probe, or more than one.
    """
    if not probes:
        raise UserError(explain_missing_probe(uf2=uf2))
    names = ", ".join(f"{probe.unique_id} ({probe.description})" for probe in probes)
    matching = [probe for probe in probes if wanted is None or probe.unique_id.lower().startswith(wanted.lower())]
    if not matching:
        raise UserError(f"no debug probe '{wanted}'; connected: {names}")
    if len(matching) > 1:
        raise UserError(f"several debug probes: {names}; choose one with --probe ID")
    return matching[0]


def find_probe(wanted: str | None, *, uf2: bool = False) -> DebugProbe:
    """Returns the connected probe to use, see choose_probe()."""
    from pyocd.core.helpers import ConnectHelper

    probes = ConnectHelper.get_all_connected_probes(blocking=False, print_wait_message=False)
    return choose_probe(probes, wanted, uf2=uf2)


def target_name(board: Board) -> str:
    """Returns the board's name among pyOCD's targets.

    Raises:
        UserError: it has none.
    """
    target = (board.programmer or {}).get("pyocd_target")
    if not target:
        raise UserError(f"board {board.name} has no pyocd_target in its definition: it cannot be programmed with pyOCD")
    return target


def own_target(name: str) -> OwnTarget | None:
    """Returns the constructor of a target that pyOCD lacks, by its name; otherwise None."""
    chip = chip_of_target(name)
    return chip.own_target() if chip is not None and chip.own_target is not None else None


@contextlib.contextmanager
def open_session(board: Board, selection: Selection, *, attach: bool = False) -> Iterator[Session]:
    """Yields a session with the board's core, halted, for which pyOCD resets some chips; `attach`: as it is.

    Raises:
        UserError: no probe, no or another target, or the connection breaks in the session.
    """
    # Takes a second to import; only needed here.
    from pyocd.core import exceptions
    from pyocd.core.session import Session

    target = target_name(board)
    own = own_target(target)
    if own is not None and selection.pack is None:
        if selection.algorithm is None:
            raise UserError(f"board {board.name} needs its flash algorithm: give it with --algorithm")
        own.register(selection.algorithm)
    # Only developers need pyOCD's messages beyond its exceptions.
    logging.getLogger("pyocd").setLevel(logging.CRITICAL)
    probe = find_probe(selection.probe, uf2=selection.uf2)
    options: dict[str, object] = {"target_override": target, "no_config": True, "resume_on_disconnect": True}
    if attach:
        options["connect_mode"] = "attach"
    if selection.pack:
        if not selection.pack.exists():
            raise UserError(f"CMSIS pack {selection.pack}: No such file")
        options["pack"] = [str(selection.pack)]
    try:
        # Session's own context manager closes a session that fails to open, but not one that Ctrl-C interrupts
        # meanwhile.
        with contextlib.closing(Session(probe, options=options)) as session:
            session.open()
            yield session
    except exceptions.TargetSupportError as error:
        raise UserError(
            f"pyOCD does not know the target '{target}' by itself: give the chip vendor's CMSIS pack with --pack FILE, "
            "or use --tool openocd"
        ) from error
    except (exceptions.FlashEraseFailure, exceptions.FlashProgramFailure, exceptions.FlashFailure) as error:
        reason = own.explain(getattr(error, "result_code", None)) if own is not None else ""
        raise UserError(f"{error}{': ' if reason else ''}{reason}; run again") from error
    except exceptions.Error as error:
        if comes_from(error, exceptions.ProbeError):
            raise UserError(
                f"the connection to the board broke ({error}): check cable and power, and run again; that repairs what "
                "was half written"
            ) from error
        if comes_from(error, exceptions.TransferError):
            raise UserError(
                f"no target answers the probe ({error}): check that the board has power and its debug jumpers are set, "
                "and run again"
            ) from error
        if "secure mode" in str(error):
            raise UserError(
                f"the probe is connected to another chip than a {target}, or to one whose secure state may not be "
                f"debugged ({error}): choose the right probe with --probe, or build for that board"
            ) from error
        raise UserError(f"pyOCD: {error}") from error


def program(
    chunks: Chunks,
    image: Path,
    board: Board,
    selection: Selection,
    *,
    erase_all: bool,
    progress: Callable[[float], None],
) -> Programmed:
    """Programs the differences, verifies everything, and starts the image.

    Args:
        chunks: the image: (address, bytes).
        image: the same as an Intel HEX file.
        board: the board.
        selection: probe and chip.
        erase_all: whether to erase the board's whole flash first.
        progress: called with the completed share.

    Raises:
        UserError: see open_session(), or the image does not fit, or verification failed.
    """
    from pyocd.coresight.cortex_m import CortexM
    from pyocd.flash.file_programmer import FileProgrammer

    name = target_name(board)
    chip, own = chip_of_target(name), own_target(name)
    end = max(address + len(data) for address, data in chunks)
    with open_session(board, selection) as session:
        target = session.target
        assert target is not None
        # The core is stopped before its first instruction: clocks and controller are as after a reset.
        target.reset_and_halt()
        flash = target.memory_map.get_region_for_address(chunks[0][0]).flash
        is_own = own is not None and own.made(flash)
        # pyOCD handles chips that this project doesn't know.
        number = 0 if chip is None else check_chip(chip, target)
        revision = (f"{number:#010x}, " if number else "") + f"CPUID {target.read32(CortexM.CPUID):#010x}"
        if own is not None and is_own:
            own.check_room(target, end)
        written = _Written(flash)
        if erase_all and not flash.is_erase_all_supported:
            _erase_all_sectors(flash, board, progress)
        FileProgrammer(
            session, progress=progress, chip_erase="chip" if erase_all else "sector", smart_flash=not erase_all
        ).program(str(image), file_format="hex")
        if is_own:
            verify_on_device(flash, chunks)
        else:
            target.reset_and_halt()
            verify(target.read_memory_block8, chunks)
        total = sum(len(data) for _, data in chunks)
        start_image(target)
    summary = f"verified {total:,} bytes; sectors erased: {written.sectors}, pages written: {written.pages}"
    return Programmed(summary, name if chip is None else chip.name, revision)


class _Released:
    """Replaces pyOCD's delegate of a released core, so that the end of the session leaves the core alone."""

    def stop_debug_core(self, core: CortexM) -> bool:
        return True


def start_image(target: SoCTarget) -> None:
    """Resets a board and releases it before the first instruction of its image; the session must end then.

    pyOCD releases the core when the session ends, and then clears DEMCR: a running image would find its cycle counter,
    which DEMCR.TRCENA powers (DDI 0403E C1.6.5), stopped in the middle of a measurement.
    """
    target.reset_and_halt()
    _release(target, demcr=0)


def change_bits(
    board: Board, selection: Selection, changes: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Changes bits of registers while an image runs, which is halted for that and goes on.

    Args:
        board: the board.
        selection: its probe.
        changes: address, mask and value of each change, in their order.

    Returns:
        The changes that undo them.

    Raises:
        UserError: see open_session().
    """
    undo: list[tuple[int, int, int]] = []
    from pyocd.coresight.cortex_m import CortexM

    with open_session(board, selection, attach=True) as session:
        target = session.target
        assert target is not None
        target.halt()
        for address, mask, value in changes:
            old = target.read32(address)
            target.write32(address, old & ~mask | value)
            undo.insert(0, (address, mask, old & mask))
        _release(target, demcr=CortexM.DEMCR_TRCENA)
    return undo


def _release(target: SoCTarget, demcr: int) -> None:
    """Lets the halted core run, with DEMCR as it is to find it."""
    from pyocd.coresight.cortex_m import CortexM

    core = target.selected_core_or_raise
    core.write32(CortexM.DEMCR, demcr)
    # C_DEBUGEN and C_HALT off: the core runs.
    core.write32(CortexM.DHCSR, CortexM.DBGKEY)
    core.delegate = _Released()


class _Written:
    """Counts what a flash erases and programs from now on.

    Attributes:
        sectors, pages: the numbers.
    """

    def __init__(self, flash: Flash) -> None:
        self.sectors = 0
        self.pages = 0
        erase, program_page, start = flash.erase_sector, flash.program_page, flash.start_program_page_with_buffer

        def erase_sector(address: int) -> None:
            self.sectors += 1
            erase(address)

        def program_one(address: int, data: Sequence[int]) -> None:
            self.pages += 1
            program_page(address, data)

        def start_one(buffer: int, address: int) -> None:
            self.pages += 1
            start(buffer, address)

        flash.erase_sector, flash.program_page = erase_sector, program_one
        flash.start_program_page_with_buffer = start_one


def _erase_all_sectors(flash: Flash, board: Board, progress: Callable[[float], None]) -> None:
    """Erases the board's flash where the chip's algorithm has no erasing of all."""
    flash.init(flash.Operation.ERASE)
    addresses = range(board.flash.origin, board.flash.end, flash.region.sector_size)
    for count, address in enumerate(addresses):
        flash.erase_sector(address)
        progress(count / len(addresses))
    flash.cleanup()


def verify_on_device(flash: Flash, chunks: Chunks) -> None:
    """Does the same as verify(), comparing on the device."""
    for address, data in chunks:
        for at in range(0, len(data), _VERIFY_SIZE):
            part = data[at : at + _VERIFY_SIZE]
            wrong = flash.verify(address + at, part)
            if wrong is not None:
                verify(flash.target.read_memory_block8, [(wrong, data[wrong - address : wrong - address + 1])])
                raise UserError(
                    f"verification failed at {wrong:#010x}, where a second look finds nothing wrong: the supply or the "
                    "clock is not stable"
                )
    flash.cleanup()


def verify(read: Callable[[int, int], Sequence[int]], chunks: Chunks) -> None:
    """Compares flash with the image.

    Args:
        read: reads bytes: (address, count).
        chunks: (address, bytes) of the image.

    Raises:
        UserError: they differ.
    """
    for address, expected in chunks:
        actual = bytes(read(address, len(expected)))
        if actual != expected:
            offset = next(i for i, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b)
            raise UserError(
                f"verification failed at {address + offset:#010x}: flash has {actual[offset]:#04x}, the image "
                f"{expected[offset]:#04x}; run again, and check the flash's write protection if that does not help"
            )

"""A debug probe for pyOCD whose target is the board simulator: everything above the wire is real.

It answers at the level of debug port and access port registers (Arm Debug Interface Architecture Specification ADIv5.2,
IHI 0031C, chapters B2 and C2; ADIv6, IHI 0074, the same chapters), which exercises pyOCD's whole stack and the flash
algorithm on the simulated core.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyocd.core import exceptions
from pyocd.probe.aggregator import PROBE_CLASSES
from pyocd.probe.debug_probe import DebugProbe

from boardsim.machine import Machine
from boardsim.memory import BusError
from tools.commands.flash.chips import chips
from tools.commands.flash.debug_port import ROM_TABLE, DebugPort
from tools.quiet.console import UserError

# AP registers.
_CSW, _TAR, _DRW, _BASE, _IDR = 0x00, 0x04, 0x0C, 0xF8, 0xFC

# Instructions that the core executes between two accesses of the probe, if it runs.
_SLICE = 2000


class SimulatedProbe(DebugProbe):
    """The probe.

    Args:
        machine: the board that it is connected to.
        unique_id: its serial number.

    Attributes:
        machine: the board.
        accesses: accesses to the target so far.
        trip: called before each access; an exception ends the access, to simulate cut cables.
    """

    #: What get_all_connected_probes() finds.
    connected: list[SimulatedProbe] = []

    def __init__(self, machine: Machine, unique_id: str = "SIMULATED") -> None:
        super().__init__()
        self.machine = machine
        self._port = _ports()[(machine.board.simulator or {})["chip"]]
        self.accesses = 0
        self.trip: Callable[[SimulatedProbe], None] | None = None
        self._unique_id = unique_id
        self._open = False
        self._protocol: DebugProbe.Protocol | None = None
        self._reset_asserted = False
        self._lose_state()

    def _lose_state(self) -> None:
        self._select = 0
        self._control = 0
        self._registers = {_CSW: 0x23000010 | self._port.csw, _TAR: 0}

    # Discovery.

    @classmethod
    def get_all_connected_probes(cls, unique_id: str | None = None, is_explicit: bool = False) -> list[SimulatedProbe]:
        return list(cls.connected)

    @classmethod
    def get_probe_with_id(cls, unique_id: str, is_explicit: bool = False) -> SimulatedProbe | None:
        return next((probe for probe in cls.connected if probe.unique_id == unique_id), None)

    @property
    def vendor_name(self) -> str:
        return "Torch Fusion"

    @property
    def product_name(self) -> str:
        return f"simulated {self.machine.board.name}"

    @property
    def supported_wire_protocols(self) -> Collection[DebugProbe.Protocol]:
        return [DebugProbe.Protocol.DEFAULT, DebugProbe.Protocol.SWD]

    @property
    def unique_id(self) -> str:
        return self._unique_id

    @property
    def wire_protocol(self) -> DebugProbe.Protocol | None:
        return self._protocol

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def capabilities(self) -> set[DebugProbe.Capability]:
        shared = {DebugProbe.Capability.SWJ_SEQUENCE, DebugProbe.Capability.SWD_SEQUENCE}
        return {DebugProbe.Capability.BANKED_DP_REGISTERS} | (shared if self._port.dp_identity else set())

    # Connection.

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        self._open = False

    def connect(self, protocol: DebugProbe.Protocol | None = None) -> None:
        self._protocol = DebugProbe.Protocol.SWD
        self._lose_state()

    def disconnect(self) -> None:
        self._protocol = None

    def swj_sequence(self, length: int, bits: int) -> None:
        """Wakes the debug ports; they are awake."""

    def swd_sequence(self, sequences: Sequence[tuple[int] | tuple[int, int]]) -> tuple[int, Sequence[bytes]]:
        """Selects the debug port of several on the wire; there is one."""
        return 0, []

    def set_clock(self, frequency: float) -> None:
        pass

    def reset(self) -> None:
        self.assert_reset(True)
        self.assert_reset(False)

    def assert_reset(self, asserted: bool) -> None:
        self._access()
        if self._reset_asserted and not asserted:
            self.machine.reset()
        self._reset_asserted = asserted

    def is_reset_asserted(self) -> bool:
        return self._reset_asserted

    # Debug port.

    def read_dp(self, addr: int, now: bool = True) -> int | Callable[[], int]:
        self._access()
        # CTRL/STAT acknowledges the power requests in bits 28 and 30 in those above them.
        bank = self._select & 0xF
        status = self._control | (self._control & 0x50000000) << 1
        identity = self._port.dp.get(bank if self._port.adi_v6 else 0, 0)
        value = {0x0: identity, 0x4: self._port.dp_identity.get(bank, status)}.get(addr & 0xC, 0)
        return value if now else lambda: value

    def write_dp(self, addr: int, data: int) -> None:
        self._access()
        if addr & 0xC == 0x4:
            self._control = data & 0x50000000
        elif addr & 0xC == 0x8:
            self._select = data

    # Access port.

    def read_ap(self, addr: int, now: bool = True) -> int | Callable[[], int]:
        (value,) = self._read(addr, 1)
        return value if now else lambda: value

    def write_ap(self, addr: int, data: int) -> None:
        self._write(addr, [data])

    def read_ap_multiple(
        self, addr: int, count: int = 1, now: bool = True
    ) -> Sequence[int] | Callable[[], Sequence[int]]:
        values = self._read(addr, count)
        return values if now else lambda: values

    def write_ap_multiple(self, addr: int, values: Sequence[int]) -> None:
        self._write(addr, values)

    def _access(self) -> None:
        """Handles every access: the core goes on meanwhile, and cables are cut."""
        if self.trip is not None:
            self.trip(self)
        self.accesses += 1
        if not self.machine.run_control.halted and not self._reset_asserted:
            self.machine.run(instructions=_SLICE)

    def _read(self, addr: int, count: int) -> list[int]:
        self._access()
        register = self._register(addr)
        if register == _DRW:
            return [self._transfer(None) for _ in range(count)]
        if register is None:
            return [self._port.ap_words.get(self._select & ~0xF | addr & 0xC, 0)] * count
        known = {_IDR: self._port.ap_idr, _BASE: ROM_TABLE | 3}
        return [known.get(register, self._registers.get(register, 0))] * count

    def _register(self, addr: int) -> int | None:
        """Returns the register of the core's AP that an access reaches, by its offset in ADIv5; None for other
        addresses.
        """
        place = self._select & ~0xF | addr & 0xC
        # In an access port of ADIv6, registers begin at 0xD00.
        offset = place - (self._port.ap + 0xD00 if self._port.adi_v6 else self._port.ap << 24)
        return offset if 0 <= offset < 0x100 else None

    def _write(self, addr: int, values: Sequence[int]) -> None:
        self._access()
        register = self._register(addr)
        for value in values:
            if register == _DRW:
                self._transfer(value)
            elif register in self._registers:
                self._registers[register] = value | self._port.csw if register == _CSW else value

    def _transfer(self, value: int | None) -> int:
        """Performs one memory access of the AP, with size and increment according to CSW."""
        address = self._registers[_TAR]
        size = 1 << (self._registers[_CSW] & 3)
        shift = 8 * (address & 3)
        if self._registers[_CSW] >> 4 & 3:
            low = self._port.increment - 1
            self._registers[_TAR] = address & ~low | address + size & low
        try:
            if value is not None:
                self.machine.debugger.write_register(address, size, value >> shift & ((1 << 8 * size) - 1))
                return 0
            if address & ~0xFFF == ROM_TABLE or address & ~3 in self._port.words:
                return self._port.words.get(address & ~3, 0)
            return self.machine.debugger.read_register(address, size) << shift
        except BusError as error:
            raise exceptions.TransferFaultError(fault_address=address) from error


def _ports() -> dict[str, DebugPort]:
    """Returns the ports by the simulator's chip name."""
    return {chip.simulator: chip.debug_port for chip in chips()}


def connect(machine: Machine, unique_id: str = "SIMULATED") -> SimulatedProbe:
    """Plugs a probe in: pyOCD finds it from now on.

    Raises:
        UserError: the board's chip has another debug port than the one that is simulated.
    """
    chip = (machine.board.simulator or {})["chip"]
    if chip not in _ports():
        raise UserError(
            f"the debug port of {machine.board.name} is not simulated; use --simulate with a board that has one of: "
            + ", ".join(sorted(_ports()))
        )
    PROBE_CLASSES["simulated"] = SimulatedProbe
    probe = SimulatedProbe(machine, unique_id)
    SimulatedProbe.connected.append(probe)
    return probe


def disconnect_all() -> None:
    """Unplugs all simulated probes."""
    SimulatedProbe.connected.clear()

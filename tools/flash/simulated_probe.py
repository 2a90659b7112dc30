"""A debug probe for pyOCD whose target is the board simulator: everything above the wire is real.

It answers at the level of debug port and access port registers (Arm Debug Interface Architecture Specification ADIv5.2,
IHI 0031C, chapters B2 and C2), so pyOCD's whole stack and the flash algorithm on the simulated core are exercised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pyocd.core import exceptions
from pyocd.probe.aggregator import PROBE_CLASSES
from pyocd.probe.debug_probe import DebugProbe

from tools.boardsim.machine import BusError, Machine
from tools.quiet.console import UserError

# SW-DP of a Cortex-M4, version 1; AHB-AP of a Cortex-M4 (DDI 0439, table of debug components).
_DPIDR, _AP_IDR = 0x2BA01477, 0x24770011
_ROM_TABLE = 0xE00FF000
# AP registers.
_CSW, _TAR, _DRW, _BASE, _IDR = 0x00, 0x04, 0x0C, 0xF8, 0xFC

# Instructions that the core executes between two accesses of the probe, if it runs.
_SLICE = 2000


def _component(base: int, part: int, designer: int, component_class: int) -> dict[int, int]:
    """CoreSight identification registers (IHI 0031C D1.2) of a component: address -> word.

    Args:
        designer: JEP106 code with its continuation count in bits 11:8.
    """
    code, continuation = designer & 0x7F, designer >> 8
    peripheral = [part & 0xFF, part >> 8 | (code & 0xF) << 4, 8 | code >> 4, 0]
    identification = [0x0D, component_class << 4, 0x05, 0xB1]
    return (
        {base + 0xFE0 + 4 * i: value for i, value in enumerate(peripheral)}
        | {base + 0xFD0: continuation}
        | {base + 0xFF0 + 4 * i: value for i, value in enumerate(identification)}
    )


def _rom_table() -> dict[int, int]:
    """The ROM table of an STM32WB55, and the identification of what it lists: SCS, DWT, FPB (DDI 0403E C1.2.3)."""
    arm, st, generic = 0x43B, 0x020, 0xE
    words = _component(_ROM_TABLE, 0x495, st, 1)
    for index, (base, part) in enumerate({0xE000E000: 0x00C, 0xE0001000: 0x002, 0xE0002000: 0x003}.items()):
        words |= _component(base, part, arm, generic)
        words[_ROM_TABLE + 4 * index] = base - _ROM_TABLE & 0xFFFFF000 | 3
    return words


class SimulatedProbe(DebugProbe):
    """The probe.

    Args:
        machine: the board that it is connected to.
        unique_id: its serial number.

    Attributes:
        machine: the board.
        accesses: accesses to the target so far.
        trip: called before each access; what it raises ends the access. For cutting cables.
    """

    #: What get_all_connected_probes() finds.
    connected: list[SimulatedProbe] = []
    _WORDS = _rom_table()

    def __init__(self, machine: Machine, unique_id: str = "SIMULATED") -> None:
        super().__init__()
        self.machine = machine
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
        self._registers = {_CSW: 0x23000050, _TAR: 0}

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
        return {DebugProbe.Capability.BANKED_DP_REGISTERS}

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
        value = {0x0: _DPIDR, 0x4: self._control | (self._control & 0x50000000) << 1}.get(addr & 0xC, 0)
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
        """Every access passes here: the core goes on meanwhile, and cables are cut."""
        if self.trip is not None:
            self.trip(self)
        self.accesses += 1
        if not self.machine.halted and not self._reset_asserted:
            self.machine.run(instructions=_SLICE)

    def _register(self, addr: int) -> int | None:
        """The AP register that an access reaches; None for an AP that does not exist."""
        return None if self._select >> 24 else self._select & 0xF0 | addr & 0xC

    def _read(self, addr: int, count: int) -> list[int]:
        self._access()
        register = self._register(addr)
        if register == _DRW:
            return [self._transfer(None) for _ in range(count)]
        value = 0
        if register is not None:
            value = {_IDR: _AP_IDR, _BASE: _ROM_TABLE | 3}.get(register, self._registers.get(register, 0))
        return [value] * count

    def _write(self, addr: int, values: Sequence[int]) -> None:
        self._access()
        register = self._register(addr)
        for value in values:
            if register == _DRW:
                self._transfer(value)
            elif register in self._registers:
                # DeviceEn says that accesses are possible.
                self._registers[register] = value | 0x40 if register == _CSW else value

    def _transfer(self, value: int | None) -> int:
        """One access of the AP to memory, of the size and with the increment that CSW says."""
        address = self._registers[_TAR]
        size = 1 << (self._registers[_CSW] & 3)
        shift = 8 * (address & 3)
        if self._registers[_CSW] >> 4 & 3:
            # The AHB-AP of a Cortex-M4 counts in the lower 12 bits.
            self._registers[_TAR] = address & ~0xFFF | address + size & 0xFFF
        try:
            if value is not None:
                self.machine.write_register(address, size, value >> shift & ((1 << 8 * size) - 1))
                return 0
            if address & ~0xFFF == _ROM_TABLE or address & ~3 in self._WORDS:
                return self._WORDS.get(address & ~3, 0)
            return self.machine.read_register(address, size) << shift
        except BusError as error:
            raise exceptions.TransferFaultError(fault_address=address) from error


def connect(machine: Machine, unique_id: str = "SIMULATED") -> SimulatedProbe:
    """Plugs a probe in: pyOCD finds it from now on.

    Raises:
        UserError: the board's chip has another debug port than the one that is simulated.
    """
    if machine.board.core != "cortex-m4":
        raise UserError(
            f"the simulated probe has the debug port of a Cortex-M4; {machine.board.name} has a {machine.board.core}: "
            "use it with nucleo_wb55rg, or leave --simulate out"
        )
    PROBE_CLASSES["simulated"] = SimulatedProbe
    probe = SimulatedProbe(machine, unique_id)
    SimulatedProbe.connected.append(probe)
    return probe


def disconnect_all() -> None:
    """Unplugs all simulated probes."""
    SimulatedProbe.connected.clear()

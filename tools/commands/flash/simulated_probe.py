"""A debug probe for pyOCD whose target is the board simulator: everything above the wire is real.

It answers at the level of debug port and access port registers (Arm Debug Interface Architecture Specification ADIv5.2,
IHI 0031C, chapters B2 and C2; ADIv6, IHI 0074, the same chapters), so pyOCD's whole stack and the flash algorithm on
the simulated core are exercised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from pyocd.core import exceptions
from pyocd.probe.aggregator import PROBE_CLASSES
from pyocd.probe.debug_probe import DebugProbe

from boardsim.machine import Machine
from boardsim.memory import BusError
from tools.quiet.console import UserError

_ROM_TABLE = 0xE00FF000
# AP registers.
_CSW, _TAR, _DRW, _BASE, _IDR = 0x00, 0x04, 0x0C, 0xF8, 0xFC

# Instructions that the core executes between two accesses of the probe, if it runs.
_SLICE = 2000

_ARM, _ST, _RASPBERRY_PI = 0x43B, 0x020, 0x913
_ROM_CLASS, _CORESIGHT_CLASS, _GENERIC_CLASS = 1, 9, 0xE


def _component(base: int, part: int, designer: int, component_class: int, architecture: int = 0) -> dict[int, int]:
    """CoreSight identification registers (IHI 0031C D1.2) of a component: address -> word.

    Args:
        designer: JEP106 code with its continuation count in bits 11:8.
        architecture: ARCHID of DEVARCH (IHI 0029E B2.3.3), for a component of the CoreSight class.
    """
    code, continuation = designer & 0x7F, designer >> 8
    peripheral = [part & 0xFF, part >> 8 | (code & 0xF) << 4, 8 | code >> 4, 0]
    identification = [0x0D, component_class << 4, 0x05, 0xB1]
    words = (
        {base + 0xFE0 + 4 * i: value for i, value in enumerate(peripheral)}
        | {base + 0xFD0: continuation}
        | {base + 0xFF0 + 4 * i: value for i, value in enumerate(identification)}
    )
    if architecture:
        # Architect Arm (JEP106 4, 0x3B), PRESENT.
        words[base + 0xFBC] = 4 << 28 | 0x3B << 21 | 1 << 20 | architecture
    return words


def _entries(table: int, components: Iterable[int]) -> dict[int, int]:
    """A ROM table's entries: components that are present, by 32-bit offsets."""
    return {table + 4 * index: base - table & 0xFFFFF000 | 3 for index, base in enumerate(components)}


@dataclass(frozen=True)
class _DebugPort:
    """What differs between the chips at the end of the wire.

    Attributes:
        dp: read-only registers of the debug port: bank -> word at address 0.
        adi_v6: whether access ports have addresses (ADIv6) instead of numbers (ADIv5).
        ap: base of the core's access port, by address or number.
        ap_idr: its IDR.
        csw: bits that are always set in its CSW: accesses are possible (DeviceEn), secure ones too (SDeviceEn).
        increment: addresses count within so many bytes.
        words: ROM table and identification of components, where the core's bus does not have them.
        ap_words: registers of other access ports; of ADIv6 also the ROM table in the space of access ports.
    """

    dp: dict[int, int]
    adi_v6: bool
    ap: int
    ap_idr: int
    csw: int
    increment: int
    words: dict[int, int]
    ap_words: dict[int, int]


def _stm32(part: int, dpidr: int = 0x2BA01477, ap_words: dict[int, int] | None = None) -> _DebugPort:
    """SW-DP and AHB-AP of a Cortex-M4 (DDI 0439, table of debug components), with SCS, DWT and FPB (DDI 0403E C1.2.3).

    Args:
        part: the chip's device id, which is in its ROM table, too.
        dpidr: identification of the SW-DP, of version 1 if not given.
        ap_words: registers of access ports that the core's is not.
    """
    parts = {0xE000E000: 0x00C, 0xE0001000: 0x002, 0xE0002000: 0x003}
    words = _component(_ROM_TABLE, part, _ST, _ROM_CLASS) | _entries(_ROM_TABLE, parts)
    for base, number in parts.items():
        words |= _component(base, number, _ARM, _GENERIC_CLASS)
    return _DebugPort({0: dpidr}, False, 0, 0x24770011, 0x40, 0x1000, words, ap_words or {})


def _rp2350() -> _DebugPort:
    """SW-DP, version 3, whose ROM table at 0 lists the AHB-AP of core 0 (RP2350 datasheet, "Arm Debug", "Access
    Ports"); SCS, DWT and breakpoint unit of a Cortex-M33. Core 1 is not there.
    """
    ap = 0x2000
    architectures = {0xE000E000: 0x2A04, 0xE0001000: 0x1A02, 0xE0002000: 0x1A03}
    words = _component(_ROM_TABLE, 0x4C9, _ARM, _ROM_CLASS) | _entries(_ROM_TABLE, architectures)
    for base, architecture in architectures.items():
        words |= _component(base, 0xD21, _ARM, _CORESIGHT_CLASS, architecture)
    # A ROM table of class 9 (IHI 0074, "Class 0x9 ROM Tables"), a MEM-AP of version 2.
    ap_words = _component(0, 0x004, _RASPBERRY_PI, _CORESIGHT_CLASS, 0x0AF7) | _entries(0, [ap])
    ap_words |= _component(ap, 0x9E3, _ARM, _CORESIGHT_CLASS, 0x0A17)
    # DPIDR1: addresses of 20 bits; BASEPTR0: the table at 0, VALID.
    dp = {0: 0x4C013477, 1: 0x94, 2: 1}
    return _DebugPort(dp, True, ap, 0x34770008, 0x00800040, 0x400, words, ap_words)


# The radio core of an STM32WB55 has an AHB-AP of its own, 1, which is there but lets nobody in: CSW.DeviceEn is 0. Its
# number, and that of the chip's SW-DP of version 2, are what a probe found on a NUCLEO-WB55RG (Zephyr's issue 40201).
_RADIO_CORE = {0x010000FC: 0x84770001, 0x010000F8: 0xF0000003}

#: By the chip of the simulator.
_PORTS = {"stm32wb55rg": _stm32(0x495, 0x6BA02477, _RADIO_CORE), "stm32l475vg": _stm32(0x415), "rp2350": _rp2350()}


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

    def __init__(self, machine: Machine, unique_id: str = "SIMULATED") -> None:
        super().__init__()
        self.machine = machine
        self._port = _PORTS[(machine.board.simulator or {})["chip"]]
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
        bank = self._select & 0xF if self._port.adi_v6 else 0
        status = self._control | (self._control & 0x50000000) << 1
        value = {0x0: self._port.dp.get(bank, 0), 0x4: status}.get(addr & 0xC, 0)
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
        if not self.machine.run_control.halted and not self._reset_asserted:
            self.machine.run(instructions=_SLICE)

    def _read(self, addr: int, count: int) -> list[int]:
        self._access()
        register = self._register(addr)
        if register == _DRW:
            return [self._transfer(None) for _ in range(count)]
        if register is None:
            return [self._port.ap_words.get(self._select & ~0xF | addr & 0xC, 0)] * count
        known = {_IDR: self._port.ap_idr, _BASE: _ROM_TABLE | 3}
        return [known.get(register, self._registers.get(register, 0))] * count

    def _register(self, addr: int) -> int | None:
        """The register of the core's AP that an access reaches, by its offset in ADIv5; None for any other place."""
        place = self._select & ~0xF | addr & 0xC
        # In an access port of ADIv6 the registers are at 0xD00.
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
        """One access of the AP to memory, of the size and with the increment that CSW says."""
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
            if address & ~0xFFF == _ROM_TABLE or address & ~3 in self._port.words:
                return self._port.words.get(address & ~3, 0)
            return self.machine.debugger.read_register(address, size) << shift
        except BusError as error:
            raise exceptions.TransferFaultError(fault_address=address) from error


def connect(machine: Machine, unique_id: str = "SIMULATED") -> SimulatedProbe:
    """Plugs a probe in: pyOCD finds it from now on.

    Raises:
        UserError: the board's chip has another debug port than the one that is simulated.
    """
    chip = (machine.board.simulator or {})["chip"]
    if chip not in _PORTS:
        raise UserError(
            f"the debug port of {machine.board.name} is not simulated; use --simulate with a board that has one of: "
            + ", ".join(sorted(_PORTS))
        )
    PROBE_CLASSES["simulated"] = SimulatedProbe
    probe = SimulatedProbe(machine, unique_id)
    SimulatedProbe.connected.append(probe)
    return probe


def disconnect_all() -> None:
    """Unplugs all simulated probes."""
    SimulatedProbe.connected.clear()

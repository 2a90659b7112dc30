"""The chips that can be simulated, by the name that a board's definition has in `simulator`."""

from __future__ import annotations

from boardsim.rp2350 import Rp2350
from boardsim.stm32l475 import Stm32l475
from boardsim.stm32wb55 import Stm32wb55

#: Name -> model. A model is called with the machine and the board's `simulator` options; it adds memories and
#: peripherals, and has boot(), flash_written(), power_lost(), coprocessor(), RESET_CLOCK_HZ, SYSRESETREQ_IS_CORE_ONLY,
#: VECTOR_TABLE and VECTOR_TABLE_ALIGNMENT.
CHIPS = {
    "rp2350": Rp2350,
    "stm32l475vg": Stm32l475,
    "stm32wb55rg": Stm32wb55,
}

"""The chips that can be simulated, by the name that a board's definition has in `simulator`."""

from __future__ import annotations

from tools.boardsim.stm32wb55 import Stm32wb55

#: Name -> model. A model is called with the machine and the board's `simulator` options; it adds memories and
#: peripherals, and has boot(), flash_written(), power_lost(), RESET_CLOCK_HZ, VECTOR_TABLE and VECTOR_TABLE_ALIGNMENT.
CHIPS = {
    "stm32wb55rg": Stm32wb55,
}

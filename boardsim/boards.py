"""Builds the machine that simulates a board, with the chip that the board's definition names."""

from boardsim.chips import chip_names, find_chip
from boardsim.machine import Machine
from tools.artifacts.board.board import Board
from tools.quiet.console import UserError


def simulated(board: Board) -> Machine:
    """Returns a machine with the chip of a board (`simulator` in its definition), as its power is switched on with
    empty flash.

    Raises:
        UserError: there is no model of the board's chip.
    """
    options = dict(board.simulator or {})
    name = options.get("chip", "")
    if name not in chip_names():
        what = f"chip '{name}', which there is no simulator of" if name else "no chip to simulate"
        raise UserError(
            f"board {board.name} names {what}; set `simulator` in its definition to one of: {', '.join(chip_names())}"
        )
    return Machine(board, find_chip(name), options)

"""A board report for tests."""

from tools.artifacts.board_report.board_report import BoardReport, Item, Layer


def make_report(place: str = "board", passed: bool = True) -> BoardReport:
    """Returns the report of a board called desk."""
    return BoardReport(
        board="desk",
        description="A desk, Cortex-M4F at 64 MHz",
        place=place,
        chip="STM32WB55",
        revision="0x20010000, CPUID 0x410fc241",
        model="net",
        image="12ab",
        date="2026-11-28",
        versions={"executorch": "1.4.1"},
        unit="cycles",
        clock_hz=64_000_000,
        inference=6400,
        stack_used=96,
        stack_size=4096,
        items=(Item("golden inputs", passed, "3 of 3 equal PyTorch to the bit"),),
        layers=(Layer("aten::linear", "fc (Linear)", 32, 6000, 5000, 5500), Layer("aten::relu", "", 0, 400)),
    )

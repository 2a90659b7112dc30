"""Runs images as programs of the build machine; instructions are not counted."""

from pathlib import Path

from tools.verify.environment.hosted import Result, run_hosted


class Host:
    """The build machine."""

    def run(self, image: Path, inputs: bytes | None = None, timeout: float = 120, model: str = "") -> Result:
        """Runs an image, see Hosted.run()."""
        return run_hosted(self, image, lambda options: [str(image.absolute()), *options[1:]], inputs, timeout, model)

    def instructions(self, ticks: int) -> None:
        """Ticks of this machine are no instructions."""

import subprocess

from tests.faults.faults import descendants, said


def test_descendants_are_found_through_their_parents() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout
        child = int(shell.stdout.readline())
        assert descendants(shell.pid) == [child]
        subprocess.run(["kill", str(child)], check=True)
    assert descendants(shell.pid) == []


def test_the_line_that_tells_most_is_shown() -> None:
    output = "INFO: x\nERROR: a.bzl:3: failed\nError in fail: tar: No space left on device\nERROR: Build failed fully\n"
    assert said(output) == "Error in fail: tar: No space left on device"
    assert said(output.replace("No space left on device", "damaged")) == "Error in fail: tar: damaged"
    assert said("\nServer terminated abruptly (error code: 14)\n") == "Server terminated abruptly (error code: 14)"
    assert said("") == ""

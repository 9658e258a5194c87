"""What a person reads: progress, errors, the table of components."""

from __future__ import annotations

import io
import os
import subprocess

import pytest

from specdecode_local import __main__, paths, privilege, status
from specdecode_local.errors import LocalError
from specdecode_local.exclusive import exclusive
from specdecode_local.progress import Progress, elapsed


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (12.3, "12 s"), (59.4, "59 s"), (185, "3 min 05 s"), (3600, "60 min 00 s")]
)
def test_times_read_well(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


def test_in_a_pipe_a_step_is_one_plain_line() -> None:
    stream = io.StringIO()
    with Progress(stream).step("build etcd") as step:
        step.detail = "half way"
    assert stream.getvalue().startswith("✓ build etcd: half way (")
    assert "\x1b" not in stream.getvalue()


def test_a_failed_step_is_marked_and_the_error_goes_on() -> None:
    stream = io.StringIO()
    with pytest.raises(LocalError), Progress(stream).step("node"):
        raise LocalError("no")
    assert stream.getvalue().startswith("✗ node (")


def test_steps_within_a_step_stay_silent() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    with progress.step("images"), progress.step("image pause"):
        pass
    assert stream.getvalue().count("\n") == 1


def test_an_error_says_what_to_do_and_ends_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(privilege.os, "geteuid", lambda: 1000)
    assert __main__.main(["registry", "up"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: this needs root, and runs as user id 1000")
    assert "What to do: " in printed


def test_the_table_tells_running_from_dead() -> None:
    lines = (status.Line("etcd", "running", 42, 75.0, 61.4), status.Line("kubelet", "dead"))
    text = status.table(status.Report(lines, ("nodes: 1 of 1 Ready",), well=False)).splitlines()
    assert text[0].split() == ["COMPONENT", "STATE", "PID", "SINCE", "MEMORY"]
    assert text[1].split() == ["etcd", "running", "42", "1", "min", "15", "s", "61", "MiB"]
    assert text[2].split() == ["kubelet", "dead", "-", "-", "-"]


def test_status_tells_where_to_reach_what_is_up_and_nothing_of_what_is_not() -> None:
    running = status.Line("kube-apiserver", "running", 42, 75.0, 61.4)
    text = status.table(status.Report((running,), ("nodes: 1 of 1 Ready",), well=True))
    for address in (
        f"export KUBECONFIG={paths.KUBECONFIG} ",
        "https://10.99.7.1:6443\n",
        "http://127.0.0.1:8080\n",
        "http://127.0.0.1:9090\n",
        "127.0.0.1:5000\n",
    ):
        assert address in text
    dead = status.Line("kube-apiserver", "dead")
    assert "http" not in status.table(status.Report((dead,), ("not up",), well=False))


@pytest.mark.parametrize("n", ["abc", "", "-1", "1.5", "289", "٣", "9" * 5000])
def test_trays_of_no_number_say_which_are_allowed(n: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["trays", "--", n]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: N is {n!r}; allowed is a whole number from 0 to 288\n")
    assert "`make trays N=18`" in printed


def test_an_image_that_is_none_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["image-ref", "nope"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("error: no image is called 'nope'\nWhat to do: take one of: base, ")
    assert "operator" in printed


def test_help_is_bold_for_a_person_and_plain_in_a_pipe() -> None:
    make = ["make", "--no-print-directory", "help"]
    piped = subprocess.run(make, cwd=paths.REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert "  make trays " in piped
    assert "\x1b" not in piped
    person, terminal = os.openpty()
    try:
        subprocess.run(make, cwd=paths.REPOSITORY, stdout=terminal, check=True)
        assert b"\x1b[1mmake help" in os.read(person, 4096)
    finally:
        os.close(person)
        os.close(terminal)


def test_a_second_up_waits_for_the_first_and_says_so() -> None:
    name = f"\0specdecode-test-{os.getpid()}"
    silent, second = Progress(io.StringIO()), io.StringIO()
    with (
        exclusive(silent, name),
        pytest.raises(LocalError, match="does not end"),
        exclusive(Progress(second), name, 0.0),
    ):
        pass
    assert "another `up` or `down` is at work" in second.getvalue()
    with exclusive(silent, name):
        pass

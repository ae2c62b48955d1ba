"""Start scripts: what a shell would put into the environment, by a reader that never runs one."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import AutotuneError
from autotune.hccl.script import read_script

NAMES = st.sampled_from(["HCCL_A", "HCCL_B", "HCCL_C"])
VALUES = st.text(st.sampled_from("ab:;/= '\"\\$#&"), max_size=8)


def given_by(text: str) -> dict[str, str | None]:
    """The environment at the end."""
    return {name: one.value for name, one in read_script(text, "start.sh").launches[-1].items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("export A=b", {"A": "b"}),
        ("export A='b c' B=\"d e\"", {"A": "b c", "B": "d e"}),
        ("export A=b # B=c", {"A": "b"}),
        ("A=b\nexport A", {"A": "b"}),
        ("A=b", {}),
        ("declare -x A=b", {"A": "b"}),
        ("export A=a\\\nb", {"A": "ab"}),
        ("export \\\n  A=b", {"A": "b"}),
        ("export A=b; export B=c", {"A": "b", "B": "c"}),
        ("export A=b\nunset A", {}),
        ("export A=b\nexport B=$A:c", {"A": "b", "B": "b:c"}),
        ("export A=${B:-c}", {"A": "c"}),
        ("export A=$B", {"A": None}),
        ("export A=$(cat x)", {"A": None}),
        ("export A=`cat x`", {"A": None}),
        ("export A='$B'", {"A": "$B"}),
        ("cat <<E\nexport A=b\nE\nexport C=d", {"C": "d"}),
        ("cat <<-'E'\n\texport A=b\n\tE\nexport C=d", {"C": "d"}),
        ('export A="b\\"c"', {"A": 'b"c'}),
        ("export A=b && export B=c", {"A": "b", "B": "c"}),
        ("if true; then export A=b; fi", {"A": "b"}),
        ("for i in 1; do export A=$i; done", {"A": None}),
        ("{ export A=b; }", {"A": "b"}),
    ],
)
def test_the_environment_at_the_end(text: str, found: dict[str, str | None]) -> None:
    assert given_by(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "A=b prog",
        "env A=b prog",
        "env -u X A=b prog",
        "/usr/bin/env A=b prog",
        "mpirun -n 2 -x A=b prog",
        "docker run -e A=b image",
        "docker run --env A=b image",
        "srun --export=ALL,A=b prog",
    ],
)
def test_what_a_command_is_given(text: str) -> None:
    launch = read_script(text, "start.sh").launches[0]
    assert {name: one.value for name, one in launch.items()} == {"A": "b"}


def test_words_that_only_look_like_settings_are_none() -> None:
    assert read_script("echo A=b; prog --set A=b", "start.sh").given == ()


@settings(max_examples=40)
@given(given_values=st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4))
def test_quoted_settings_are_what_a_real_shell_gives(given_values: list[tuple[str, str]]) -> None:
    text = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in given_values)
    dump = 'printf \'%s\\0\' "${HCCL_A-unset}" "${HCCL_B-unset}" "${HCCL_C-unset}"'
    real = subprocess.run(
        ["/bin/sh", "-c", f"{text}\n{dump}"],
        capture_output=True, text=True, check=True, timeout=20, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    shown = real.stdout.split("\0")[:3]
    found = given_by(text)
    assert [found.get(name, "unset") for name in ("HCCL_A", "HCCL_B", "HCCL_C")] == shown


@given(text=st.text(st.sampled_from("AB=x '\"\\$`(){}<>|&;#\n\t-"), max_size=40))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    complaint = ""
    try:
        read_script(text, "start.sh")
    except AutotuneError as err:
        complaint = err.message
    assert not complaint or "start.sh, line " in complaint


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("export A='b", "line 1, column 10: a single quote is not closed"),
        ('x\nexport A="b', "line 2, column 10: a double quote is not closed"),
        ("export A=$(b", r"line 1, column 10: \$\( is not closed"),
        ("cat <<E\nb", "line 2, column 1: a here-document is not ended by 'E'"),
        ("export A=b\r\n", "line 1, column 11: a carriage return"),
        ("x\0", "line 1, column 2: a NUL"),
        ("x" * (1 << 20) + "x", "longer than"),
    ],
)
def test_what_cannot_be_read(text: str, complaint: str) -> None:
    with pytest.raises(AutotuneError, match=complaint):
        read_script(text, "start.sh")

"""Which configured seconds are the target's time, and which are true time."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.config.schema import Config
from undermine.model.errors import UserError

TOML = """
[roles.server]
nodes = 1
command = "true {{port}}"
ready = {{tcp = "main", timeout_s = 40}}
restart = {{after_s = 5}}
[workload]
command = "true"
timeout_s = 40
[run]
speed = {speed}
hang_s = 20
gray_s = 2
settle_timeout_s = 4
start_timeout_s = 40
"""


def config(folder: Path, speed: str = "10") -> Config:
    (folder / "undermine.toml").write_text(TOML.format(speed=speed))
    return load(folder)


def test_limits_of_the_target_are_shortened_but_those_of_a_busy_machine_stay(tmp_path: Path) -> None:
    made = config(tmp_path)
    fast = made.at_speed(made.run.speed)
    assert (fast.run.hang_s, fast.run.gray_s) == (2.0, 0.2)
    assert fast.run.settle_timeout_s == 1.0, "at least a second"
    assert fast.roles["server"].restart.after_s == 0.5  # type: ignore[union-attr]
    assert (fast.run.start_timeout_s, fast.workload.timeout_s, fast.roles["server"].ready.timeout_s) == (40, 40, 40)


def test_a_limit_below_a_second_does_not_become_longer(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(TOML.format(speed=2).replace("hang_s = 20", "hang_s = 0.4"))
    assert load(tmp_path).at_speed(2).run.hang_s == 0.4


def test_at_speed_1_the_configuration_is_the_same(tmp_path: Path) -> None:
    made = config(tmp_path, "1")
    assert made.at_speed(1) is made


@pytest.mark.parametrize("speed", ["0", "101", "2.5", '"fast"'])
def test_a_speed_is_a_whole_number_from_1_to_100(tmp_path: Path, speed: str) -> None:
    with pytest.raises(UserError, match=r"run\.speed"):
        config(tmp_path, speed)

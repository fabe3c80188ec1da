"""Names that stand for something already cannot be given to a role or node."""

from __future__ import annotations

from pathlib import Path

import pytest

from undermine.config.load import load
from undermine.model.errors import UserError


@pytest.mark.parametrize(
    ("role", "node", "said"),
    [
        (
            "client",
            "c1",
            'roles.client has the role name "client", which is reserved for the workload\'s clients; rename the role',
        ),
        (
            "web",
            "client",
            'nodes has the node name "client", which is reserved for the workload\'s clients; rename the node',
        ),
    ],
)
def test_the_name_client_is_reserved(tmp_path: Path, role: str, node: str, said: str) -> None:
    (tmp_path / "undermine.toml").write_text(f'[roles.{role}]\nnodes = ["{node}"]\ncommand = "x"\n')
    with pytest.raises(UserError) as refused:
        load(tmp_path)
    assert said in str(refused.value)


def test_a_port_may_be_called_so(tmp_path: Path) -> None:
    (tmp_path / "undermine.toml").write_text(
        '[roles.web]\nnodes = ["w1"]\ncommand = "true"\nports = ["client"]\n[workload]\ncommand = "true"\n'
    )
    assert load(tmp_path).roles["web"].ports == ("client",)

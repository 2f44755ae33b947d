"""A script that ends by ``os._exit`` leaves its modes on: the report that is made then is not made under them."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from boundby.capture.schedule import checked_limits
from boundby.capture.session import Session
from boundby.cli.run import script_modes_set_aside


class Doubled(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        made = function(*arguments, **named or {})
        return made * 2 if isinstance(made, torch.Tensor) else made


def test_no_mode_of_the_script_is_on_while_its_report_is_made() -> None:
    session = Session(limits=checked_limits(warmup=None, timed=None, watched=None))
    session.torch_seen = True
    with torch.device("meta"), torch.no_grad(), torch.autocast("cpu", dtype=torch.float16), Doubled():
        with script_modes_set_aside(session):
            weight = torch.ones(2, 2, requires_grad=True)
            product = weight @ weight
        assert torch.tensor([]).is_meta is True
    assert product.device.type == "cpu"
    assert product.dtype == torch.float32
    assert product.requires_grad
    assert product.sum().item() == 8.0

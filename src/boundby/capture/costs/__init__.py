"""What each op costs: rules by op family, and costs kept by signature."""

from boundby.capture.costs import (  # noqa: F401  # importing a family registers its rules
    attention,
    convolution,
    factorization,
    foreach,
    fourier,
    index,
    matmul,
    movement,
    pointwise,
    recurrent,
    reduction,
    value_sized,
)
from boundby.capture.costs.cache import CacheInfo, CostCache, Known, signature
from boundby.capture.costs.registry import cost_of, cost_rule

__all__ = ["CacheInfo", "CostCache", "Known", "cost_of", "cost_rule", "signature"]

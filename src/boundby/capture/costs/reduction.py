"""Reductions, softmax, normalisation, losses, pooling, resampling and sorting: traffic from the tensors, no FLOPs."""

from __future__ import annotations

from boundby.capture.costs.registry import RULES, Call, aten, op_cost, rule
from boundby.results.counts import OpCost, OpKind


def _by_traffic(kind: OpKind, names: list[str], function: str | None = None) -> None:
    def apply(call: Call) -> OpCost:
        inputs = call.inputs()
        base = call.schema.base.rpartition("::")[2]
        return op_cost(
            call,
            kind,
            reads=inputs,
            function=function or base,
            function_elements=max((tensor.numel() for tensor in inputs), default=0),
        )

    for name in names:
        RULES[name] = apply


_by_traffic(
    "reduction",
    [
        "reduction",
        *aten(
            "_aminmax _cummax_helper _cummin_helper cummax cummin cumprod cumsum logcumsumexp _logcumsumexp dist "
            "trace median nanmedian mode kthvalue histc _sparse_sum _nested_sum_backward hash_tensor "
            "segment_reduce _sparse_csr_sum _weight_norm_interface _weight_norm_interface_backward renorm "
            "_cdist_forward _cdist_backward _pdist_forward _pdist_backward unfold_backward col2im "
            "_amp_foreach_non_finite_check_and_unscale _amp_update_scale linalg__powsum max min allclose "
            "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
            "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward isin "
            "_sparse_sum_backward"
        ),
    ],
)
_by_traffic(
    "softmax",
    aten(
        "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax _masked_softmax "
        "_masked_softmax_backward softmax log_softmax _sparse_softmax _sparse_log_softmax "
        "_nested_tensor_softmax_with_shape _sparse_softmax_backward_data _sparse_log_softmax_backward_data"
    ),
    "softmax",
)
_by_traffic(
    "norm",
    aten(
        "native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward "
        "native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward batch_norm_backward "
        "_fused_rms_norm _fused_rms_norm_backward native_norm batch_norm_stats batch_norm_elemt "
        "batch_norm_backward_reduce batch_norm_backward_elemt batch_norm_gather_stats "
        "batch_norm_gather_stats_with_counts _native_batch_norm_legit_no_training _batch_norm_no_update "
        "quantized_batch_norm local_response_norm"
    ),
)
_by_traffic(
    "loss",
    aten(
        "mse_loss mse_loss_backward binary_cross_entropy binary_cross_entropy_backward "
        "binary_cross_entropy_with_logits huber_loss huber_loss_backward smooth_l1_loss smooth_l1_loss_backward "
        "soft_margin_loss soft_margin_loss_backward multi_margin_loss multi_margin_loss_backward "
        "multilabel_margin_loss_forward multilabel_margin_loss_backward _ctc_loss _ctc_loss_backward _cudnn_ctc_loss"
    ),
)
_by_traffic(
    "pool",
    aten(
        "avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward _adaptive_avg_pool2d "
        "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_avg_pool3d_backward adaptive_max_pool2d "
        "adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward max_pool2d_with_indices "
        "max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d "
        "max_unpool3d fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d "
        "fractional_max_pool3d_backward mkldnn_max_pool2d mkldnn_max_pool2d_backward mkldnn_max_pool3d "
        "mkldnn_max_pool3d_backward mkldnn_adaptive_avg_pool2d mkldnn_adaptive_avg_pool2d_backward "
        "max_pool2d_backward quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d "
        "upsample_linear1d upsample_linear1d_backward upsample_bilinear2d upsample_bilinear2d_backward "
        "upsample_bicubic2d upsample_bicubic2d_backward upsample_trilinear3d upsample_trilinear3d_backward "
        "_upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa "
        "_upsample_bicubic2d_aa_backward upsample_nearest1d_backward upsample_nearest2d_backward "
        "upsample_nearest3d_backward _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward "
        "_upsample_nearest_exact3d_backward grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d "
        "grid_sampler_3d_backward cudnn_grid_sampler cudnn_grid_sampler_backward affine_grid_generator"
    ),
)
_by_traffic(
    "sort",
    aten(
        "sort topk searchsorted bucketize nonzero_static argsort msort histogram "
        "_histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors"
    ),
    "sort",
)
_by_traffic(
    "copy",
    aten(
        "quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic dequantize "
        "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"
    ),
)


@rule(
    *aten(
        "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional cudnn_batch_norm "
        "miopen_batch_norm _batch_norm_with_update _batch_norm_with_update_functional batch_norm_update_stats"
    )
)
def _batch_norm(call: Call) -> OpCost:
    """Batch norm; in training it updates the running statistics, which some schemas do not say."""
    statistics = [one for one in (call.arg("running_mean"), call.arg("running_var")) if one is not None]
    training = call.arg("training", call.arg("train", True))
    known = {id(one) for one in statistics}
    writes = [tensor for tensor in call.outputs() if id(tensor) not in known]
    if training and not call.schema.name.endswith("_functional"):
        writes += statistics
    elements = call.arg("input").numel()
    return op_cost(call, "norm", writes=writes, function="batch_norm", function_elements=elements)


@rule("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def _nll_loss(call: Call) -> OpCost:
    """Picks one log-probability a target, and reads no other."""
    scores, target = call.args[0], call.args[1]
    picked = target.numel() * scores.element_size()
    rest = call.inputs(without=("self",))
    cost = op_cost(call, "loss", reads=rest, function="nll_loss", function_elements=target.numel())
    return op_cost(
        call,
        "loss",
        read_bytes=cost.bytes_read + min(picked, scores.numel() * scores.element_size()),
        function="nll_loss",
        function_elements=target.numel(),
    )


@rule("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def _nll_loss_backward(call: Call) -> OpCost:
    """Writes the whole gradient; the scores themselves are not needed."""
    return op_cost(call, "loss", reads=call.inputs(without=("self",)), function="nll_loss")

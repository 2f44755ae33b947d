"""Ops that move or make data and compute nothing: views, allocation, fills, random fills, copies, host reads."""

from __future__ import annotations

from boundby.capture.costs.registry import Call, aten, op_cost, rule, view_cost
from boundby.capture.costs.traffic import compute_dtype, tensors_in
from boundby.results.counts import OpCost

# Views that no alias annotation marks, and questions about metadata.
rule(
    *aten(
        "_unsafe_view unsafe_split unsafe_split_with_sizes unsafe_chunk lift lift_fresh detach alias is_same_size "
        "is_set_to "
        "is_coalesced is_pinned sparse_dim dense_dim _nnz _dimI _dimV _has_same_storage_numel q_scale q_zero_point "
        "qscheme q_per_channel_axis _assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async "
        "_functional_assert_scalar sym_constrain_range sym_constrain_range_for_size _functional_sym_constrain_range "
        "_functional_sym_constrain_range_for_size _fused_sdp_choice record_stream set resize resize_as _resize_output "
        "_coalesced sparse_resize sparse_resize_and_clear _sparse_coo_tensor_with_dims _sparse_coo_tensor_unsafe "
        "_sparse_coo_tensor_with_dims_and_tensors _sparse_compressed_tensor_unsafe _sparse_csr_tensor_unsafe "
        "sparse_compressed_tensor _sparse_compressed_tensor_with_dims _use_cudnn_ctc_loss _print _make_dep_token "
        "_nested_view_from_buffer _nested_view_from_jagged _nested_get_values _nested_tensor_size "
        "_nested_get_offsets _nested_get_lengths _nested_get_ragged_idx _nested_get_min_seqlen _nested_get_max_seqlen "
        "_nested_get_jagged_dummy _nested_compute_contiguous_strides_offsets _nested_tensor_strides "
        "_nested_tensor_storage_offsets _efficientzerotensor _linalg_check_errors"
    )
)(view_cost)


@rule(
    *aten(
        "empty empty_like empty_strided empty_permuted empty_quantized new_empty new_empty_strided "
        "_empty_affine_quantized _empty_per_channel_affine_quantized"
    )
)
def _empty(call: Call) -> OpCost:
    return OpCost(kind="empty", launches=0, dtype=compute_dtype((), tensors_in(call.out)))


@rule(
    *aten(
        "zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full zero eye arange range linspace "
        "logspace scalar_tensor tril_indices triu_indices _new_zeros_with_same_feature_meta hann_window hamming_window "
        "blackman_window bartlett_window kaiser_window fft_fftfreq fft_rfftfreq"
    )
)
def _fill(call: Call) -> OpCost:
    return op_cost(call, "fill", reads=())


@rule("aten::fill")
def _fill_with(call: Call) -> OpCost:
    """Reads the value where it is a tensor, never the target."""
    return op_cost(call, "fill", reads=call.inputs(without=("self",)))


_NORMAL = frozenset({"randn", "randn_like", "normal", "normal_functional", "log_normal", "_philox_normal"})


@rule(
    *aten(
        "rand rand_like randint randint_like randn randn_like randperm uniform normal_functional random cauchy "
        "exponential geometric log_normal _fill_mem_eff_dropout_mask _philox_normal _philox_uniform normal bernoulli "
        "poisson multinomial _standard_gamma _sample_dirichlet binomial"
    )
)
def _random(call: Call) -> OpCost:
    """Fills from a generator: reads parameters that are tensors (a mean, probabilities), not what it overwrites."""
    name = call.schema.base.rpartition("::")[2]
    overwritten = ("self",) if call.in_place or name.endswith("_like") else ()
    elements = sum(tensor.numel() for tensor in call.outputs())
    function = "normal" if name in _NORMAL else "bernoulli" if name == "bernoulli" else "uniform"
    return op_cost(
        call, "random", reads=call.inputs(without=overwritten), function=function, function_elements=elements
    )


@rule(
    "copy",
    *aten(
        "clone _to_copy cat stack constant_pad_nd repeat flip roll rot90 tril triu _copy_from "
        "_copy_from_and_resize _stack _chunk_cat block_diag diag_embed im2col pixel_shuffle pixel_unshuffle "
        "channel_shuffle slice_backward select_backward diagonal_backward select_scatter slice_scatter "
        "diagonal_scatter as_strided_scatter reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
        "replication_pad2d replication_pad3d _pin_memory _lazy_clone _to_dense _to_sparse_csr "
        "_to_sparse_csc _to_sparse_bsr _to_sparse_bsc to_mkldnn _mkldnn_reshape _mkldnn_transpose _reshape_copy "
        "_pack_padded_sequence mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight to_padded_tensor "
        "_nested_tensor_from_tensor_list _nested_from_padded "
        "_nested_tensor_from_mask _jagged_to_padded_dense_forward _padded_dense_to_jagged_forward "
        "lift_fresh_copy int_repr resize_as_sparse copy_sparse_to_sparse _cudnn_rnn_flatten_weight "
        "_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _spdiags "
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
        "_upsample_nearest_exact2d _upsample_nearest_exact3d narrow_copy"
    ),
)
def _copy(call: Call) -> OpCost:
    """Reads the source, writes the target."""
    return op_cost(call, "copy")


@rule("aten::copy")
def _copy_functional(call: Call) -> OpCost:
    """``copy_`` and its functional form: the target's values are not used."""
    return op_cost(call, "copy", reads=call.inputs(without=("self",)))


rule("prims::convert_element_type", "prims::device_put", "prims::clone")(_copy)


@rule("aten::_local_scalar_dense", "aten::_is_all_true", "aten::_is_any_true", "aten::is_nonzero")
def _host_read(call: Call) -> OpCost:
    return op_cost(call, "scalar")

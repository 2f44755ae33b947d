"""Words of an estimate of decoding: its data names kernels, bounds and engines in English, whatever the language."""

from __future__ import annotations

from boundby.results.language import tr


def kernel_words(name: str) -> str:
    """A kernel's name in the language in use."""
    return {
        "norm": tr("norm"),
        "qkv projection": tr("qkv projection"),
        "rotary embedding": tr("rotary embedding"),
        "cache write": tr("cache write"),
        "attention": tr("attention"),
        "output projection": tr("output projection"),
        "residual": tr("residual"),
        "gate and up": tr("gate and up"),
        "SiLU x mul": tr("SiLU x mul"),
        "down": tr("down"),
        "residual + norm": tr("residual + norm"),
        "rotary + cache write": tr("rotary + cache write"),
        "gate and up, SiLU x mul": tr("gate and up, SiLU x mul"),
        "final norm": tr("final norm"),
        "head": tr("head"),
        "sampling": tr("sampling"),
    }.get(name, name)


def partition_words(name: str) -> str:
    """How a layer is cut into kernels, in the language in use."""
    return {"unfused": tr("unfused"), "fused": tr("fused"), "megakernel": tr("megakernel")}.get(name, name)


def bound_words(bound: str) -> str:
    """What binds a kernel or a step, in the language in use."""
    return {"memory": tr("memory"), "compute": tr("compute"), "launch": tr("launch")}.get(bound, bound)


def fits_words(fits: bool | None) -> str:
    """Whether something fits in memory, in a word."""
    return {None: tr("unknown"), True: tr("yes"), False: tr("no")}[fits]


def devices_words(devices: float) -> str:
    """Of which part of the devices a table is, as an apposition; empty where there is one device."""
    if devices == 1:
        return ""
    return tr("on one die of two") if devices < 1 else tr("on each of {devices} devices", devices=f"{devices:g}")


def launch_source_words(source: str) -> str:
    """How the cost of a launch is known, in the language in use."""
    return {"given": tr("given"), "measured here": tr("measured here"), "assumed": tr("assumed")}.get(source, source)


def engine_words(about: str) -> str:
    """What is said of an engine, in the language in use; a name of its own stays as it is."""
    return {
        "each operation its own kernel, issued one by one": tr("each operation its own kernel, issued one by one"),
        "norms, rotation and activation fused into their neighbours": tr(
            "norms, rotation and activation fused into their neighbours"
        ),
        "the whole step as one persistent kernel": tr("the whole step as one persistent kernel"),
        "vLLM with enforce_eager": tr("vLLM with enforce_eager"),
        "SGLang with CUDA graphs": tr("SGLang with CUDA graphs"),
        "TensorRT-LLM with CUDA graphs": tr("TensorRT-LLM with CUDA graphs"),
        "MLX: kernels encoded into few command buffers": tr("MLX: kernels encoded into few command buffers"),
        "vLLM with CUDA graphs": tr("vLLM with CUDA graphs"),
        "gpt-fast and torchao: torch.compile with CUDA graphs": tr(
            "gpt-fast and torchao: torch.compile with CUDA graphs"
        ),
        "transformers, eager": tr("transformers, eager"),
        "TinyChat with AWQ kernels": tr("TinyChat with AWQ kernels"),
        "llama.cpp when CUDA graphs were new: the kernels of before, replayed as one graph": tr(
            "llama.cpp when CUDA graphs were new: the kernels of before, replayed as one graph"
        ),
        "llama.cpp before CUDA graphs and flash attention, or with graphs off": tr(
            "llama.cpp before CUDA graphs and flash attention, or with graphs off"
        ),
        "llama.cpp of spring 2024: without flash attention": tr("llama.cpp of spring 2024: without flash attention"),
        "llama.cpp with CUDA graphs where it has them": tr("llama.cpp with CUDA graphs where it has them"),
    }.get(about, about)

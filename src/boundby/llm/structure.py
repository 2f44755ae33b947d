"""What a decoder model is made of: parameters by layer and by kernel, and what its cache holds.

A structure comes from a Hugging Face ``config.json`` (`boundby.llm.config`) or from the shipped table
(`boundby.llm.models`). Counts are exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One decoder layer, in parameters.

    ``input_projections`` are all products before attention (queries, keys and values; with latent attention the
    down- and up-projections), ``output_projection`` the one after it, ``attention_small`` what is neither: norms of
    queries and keys, sinks. ``norms`` are the norms around attention and feed-forward.

    ``gate_up`` and ``down`` are read by every token: a dense feed-forward, or the shared experts.
    ``expert_gate_up`` and ``expert_down`` are those of ONE routed expert, of which there are ``experts`` and of which a
    token takes ``experts_per_token``.

    ``cache_elements`` is what a token leaves in the cache; ``window`` is how many tokens attention sees (None: all).
    ``query_heads``, ``score_dim`` and ``value_dim`` give the work of attention: a query head meets ``score_dim``
    elements of each cached key and ``value_dim`` of each value.
    """

    input_projections: int
    output_projection: int
    attention_small: int
    norms: int
    gate_up: int
    down: int
    router: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_gate_up: int = 0
    expert_down: int = 0
    cache_elements: int
    window: int | None = None
    query_heads: int
    score_dim: int
    value_dim: int
    latent: bool = False

    @property
    def shared(self) -> int:
        """Parameters that every token reads."""
        attention = self.input_projections + self.output_projection + self.attention_small
        return attention + self.norms + self.gate_up + self.down + self.router

    @property
    def expert(self) -> int:
        """Parameters of one routed expert; 0 in a dense layer."""
        return self.expert_gate_up + self.expert_down

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.shared + self.experts * self.expert

    @property
    def active(self) -> int:
        """The parameters that one token meets."""
        return self.shared + self.experts_per_token * self.expert

    @property
    def cache_heads(self) -> float:
        """Into how many parts the cache of a token can be cut: its key-value heads; a compressed one into no parts."""
        return 1.0 if self.latent else max(1.0, self.cache_elements / (self.score_dim + self.value_dim))

    def cache_copies(self, devices: float) -> float:
        """How often each part of the cache is kept, over ``devices`` devices that divide the query heads.

        Heads of queries are divided, and each device needs the keys and values that its own meet: with more devices
        than key-value heads some need the same. A compressed cache is met by every head, so that each device keeps all
        of it. 1 on a single device or a part of one.

        Source:
            M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3, for dividing by heads; J. Ainslie et al.,
            "GQA", arXiv:2305.13245, section 2.2, for key-value heads that are fewer than the parts.
        """
        return max(1.0, devices / self.cache_heads)

    def experts_touched(self, tokens: float) -> float:
        """How many different routed experts a step over ``tokens`` tokens reads, on average, were routing uniform.

        E (1 - (1 - k/E)^tokens): k of E for one token, all of them in the end. Routing that is not uniform reads fewer.
        """
        if not self.experts:
            return 0.0
        missed: float = (1 - self.experts_per_token / self.experts) ** tokens
        return self.experts * (1 - missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStructure:
    """A model: its layers from first to last, and the tables around them, in parameters.

    ``embedding`` is the input table, ``head`` the output matrix; with ``tied`` the two are one, ``head`` is 0, and the
    table is read whole by the head. ``weights_format`` is the format the config says its
    weights are stored in (None: not said). ``notes`` are remarks on the count, each a sentence.
    """

    name: str
    source: str
    hidden: int
    vocabulary: int
    tied: bool
    embedding: int
    head: int
    final_norm: int
    layers: tuple[Layer, ...]
    longest_context: int | None = None
    weights_format: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[tuple[Layer, int], ...]:
        """The layers by kind, each with how often it occurs, in the order in which they first occur."""
        counts: dict[int, tuple[Layer, int]] = {}
        for layer in self.layers:
            counts[id(layer)] = (layer, counts.get(id(layer), (layer, 0))[1] + 1)
        return tuple(counts.values())

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embedding + self.head + self.final_norm + sum(n * layer.total for layer, n in self.kinds)

    @property
    def active(self) -> int:
        """The parameters of one token's way through the model, the input table counted whole."""
        return self.embedding + self.head + self.final_norm + sum(n * layer.active for layer, n in self.kinds)

    @property
    def head_read(self) -> int:
        """The parameters the output product reads: those of the head, or of the table that serves as one."""
        return self.embedding if self.tied else self.head

    def streamed(self, tokens: float = 1) -> float:
        """Parameters read from memory in one decode step over ``tokens`` sequences.

        Each weight once, the routed experts as far as touched, and no input table of its own: of that a token reads a
        row. For one token it is a whole number.
        """
        inner = sum(n * (layer.shared + layer.experts_touched(tokens) * layer.expert) for layer, n in self.kinds)
        return self.head_read + self.final_norm + inner

    @property
    def streamed_by_one(self) -> int:
        """`streamed` for one token, exactly."""
        return self.head_read + self.final_norm + sum(n * layer.active for layer, n in self.kinds)

    @property
    def is_sparse(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(layer.experts for layer in self.layers)

    def cache_bytes_per_token(self, element_bytes: float = 2) -> float:
        """What one more token adds to the cache while it is within every layer's window, in bytes."""
        return element_bytes * sum(n * layer.cache_elements for layer, n in self.kinds)

    def cache_bytes(self, context: float, element_bytes: float = 2, *, devices: float = 1) -> float:
        """The cache of one sequence of ``context`` tokens, in bytes; windowed layers keep their window only.

        With ``devices`` it is that of all of them together, what more than one of them keeps counted as often.
        """
        return element_bytes * sum(
            n
            * layer.cache_elements
            * layer.cache_copies(devices)
            * (context if layer.window is None else min(context, layer.window))
            for layer, n in self.kinds
        )

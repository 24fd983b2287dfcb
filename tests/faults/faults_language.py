"""Faults of a language model, its encoder and its generation: each of them a mistake that people make."""

from engine import Fault

DECODER = "language/decoder.py"
PARTS = "language/parts.py"
PAIRS = "language/byte_pairs.py"
GENERATION = "language/generation.py"

FAULTS = [
    Fault(
        "the decoder sees the future",
        DECODER,
        "DecoderBlock.forward",
        "self.attention(self.norm1(x), causal=True, mask=mask, key_lengths=key_lengths, positions=positions, "
        "cache=cache, need_weights=need_weights)",
        "self.attention(self.norm1(x), mask=mask, key_lengths=key_lengths, positions=positions, "
        "cache=cache, need_weights=need_weights)",
        "test_decoder.py::comes_later",
    ),
    Fault(
        "the norm subtracts the mean",
        PARTS,
        "RMSNorm.forward",
        "exact.square().mean(dim=-1, keepdim=True)",
        "exact.var(dim=-1, keepdim=True, correction=0)",
        "test_language_parts.py::rms_norm_by_hand",
    ),
    Fault(
        "eps is added outside the root",
        PARTS,
        "RMSNorm.forward",
        "torch.rsqrt(exact.square().mean(dim=-1, keepdim=True) + self.eps)",
        "1 / (torch.sqrt(exact.square().mean(dim=-1, keepdim=True)) + self.eps)",
        "test_language_parts.py::rms_norm_equals_torch",
    ),
    Fault(
        "the norm squares half precision",
        PARTS,
        "RMSNorm.forward",
        "x.to(torch.promote_types(x.dtype, torch.float32))",
        "x",
        "test_language_parts.py::does_not_overflow",
    ),
    Fault(
        "gate and up are exchanged",
        PARTS,
        "SwiGLU.forward",
        "F.silu(self.gate_proj(x)) * self.up_proj(x)",
        "F.silu(self.up_proj(x)) * self.gate_proj(x)",
        "test_language_parts.py::swiglu_by_hand",
    ),
    Fault(
        "the feed-forward block reads what attention has not been added to",
        DECODER,
        "DecoderBlock.forward",
        "self.mlp(self.norm2(x))",
        "self.mlp(self.norm2(x - attended))",
        "test_decoder.py::itself_by_hand",
        given=("x + F.dropout(attended, self.dropout, self.training)",),
    ),
    Fault(
        "the norms of the blocks take the default eps",
        DECODER,
        "Decoder.__init__",
        "DecoderBlock(d_model, num_heads, d_ff, num_kv_heads=num_kv_heads, head_dim=self.head_dim, rotary=rotary, "
        "window=window, norm_eps=norm_eps, dropout=dropout, backend=backend, device=device, dtype=dtype)",
        "DecoderBlock(d_model, num_heads, d_ff, num_kv_heads=num_kv_heads, head_dim=self.head_dim, rotary=rotary, "
        "window=window, dropout=dropout, backend=backend, device=device, dtype=dtype)",
        "test_decoder.py::itself_by_hand",
    ),
    Fault(
        "the last norm is left out",
        DECODER,
        "Decoder.forward",
        "x = self.norm(x if last is None else x[:, x.shape[1] - last :])",
        "x = x if last is None else x[:, x.shape[1] - last :]",
        "test_decoder.py::itself_by_hand",
    ),
    Fault(
        "of a prompt the first positions are scored",
        DECODER,
        "Decoder.forward",
        "x[:, x.shape[1] - last :]",
        "x[:, :last]",
        "test_decoder.py::last_scores",
    ),
    Fault(
        "dropout acts in evaluation too",
        DECODER,
        "DecoderBlock.forward",
        "F.dropout(attended, self.dropout, self.training)",
        "F.dropout(attended, self.dropout)",
        "test_decoder.py::dropout_acts",
    ),
    Fault(
        "a pair is counted across pieces that stand side by side",
        PAIRS,
        "BytePairs.learn",
        "[(list(piece.encode()), times) for piece, times in Counter(pieces(text)).items()]",
        "[(list(text.encode()), 1)]",
        "test_byte_pairs.py::boundary or counting_anew",
    ),
    Fault(
        "a piece counts once, however often it comes",
        PAIRS,
        "BytePairs.learn",
        "(list(piece.encode()), times)",
        "(list(piece.encode()), 1)",
        "test_byte_pairs.py::counting_anew",
    ),
    Fault(
        "a member is joined with both of its neighbours",
        PAIRS,
        "joined",
        "place += 2 if fits else 1",
        "place += 1",
        "test_byte_pairs.py::no_member_twice",
    ),
    Fault(
        "the encoder joins the latest merge first",
        PAIRS,
        "BytePairs._encode_piece",
        "self._rank.get(pair, self.vocab_size)",
        "-self._rank.get(pair, -1)",
        "test_byte_pairs.py::another_library",
    ),
    Fault(
        "generation divides by the temperature after the softmax",
        GENERATION,
        "_choose",
        "(scores.double().cpu() / temperature).softmax(dim=-1)",
        "scores.double().cpu().softmax(dim=-1) / temperature",
        "test_generation.py::as_often",
    ),
    Fault(
        "generation leaves dropout on",
        GENERATION,
        "generate",
        "model.eval()",
        "",
        "test_generation.py::dropout_is_off",
    ),
    Fault(
        "generation ends for all when one text ends",
        GENERATION,
        "generate",
        "ended.all()",
        "ended.any()",
        "test_generation.py::ends_where",
    ),
]

"""What people call the arguments and parameters of attention layers, in lower case: the words the check goes by."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Arguments of a constructor.
WIDTH_NAMES = _words(
    """
    d_model model_dim dim_model embed_dim emb_dim embedding_dim embed_size emb_size embedding_size dim hidden_dim
    hidden_size hidden n_embd n_embed embd d_embed d_emb d_in d_out in_dim out_dim in_features out_features
    input_dim output_dim input_size output_size d_hidden query_dim n_state n_units num_units width channels
    num_features features dmodel model_size emb embed d size
    """
)
HEADS_NAMES = _words(
    """
    num_heads n_heads nheads nhead n_head num_head heads head h nh n_h num_attention_heads n_attention_heads
    attention_heads attn_heads num_attn_heads head_count heads_num numheads num_query_heads n_query_heads
    num_q_heads
    """
)
KV_HEADS_NAMES = _words(
    """
    num_kv_heads n_kv_heads kv_heads num_key_value_heads n_kv_head n_kv num_kv_head num_groups n_groups
    num_kv_groups
    """
)
HEAD_DIM_NAMES = _words(
    """
    head_dim dim_head d_head head_size d_k d_v d_q dk dv key_dim value_dim qk_dim size_per_head
    """
)
LENGTH_NAMES = _words(
    """
    context_length block_size max_seq_len max_len max_length max_seq_length max_position_embeddings seq_len
    sequence_length context_size n_ctx ctx_len window_size max_sequence_length
    """
)
DROPOUT_NAMES = _words(
    """
    dropout drop p dropout_p p_dropout dropout_rate drop_rate dropout_prob attn_dropout attention_dropout attn_drop
    proj_drop resid_dropout resid_drop attn_pdrop resid_pdrop
    """
)
BIAS_NAMES = _words("bias use_bias qkv_bias add_bias with_bias attn_bias has_bias")
CAUSAL_NAMES = _words("causal is_causal use_causal autoregressive")
CONFIG_NAMES = _words("config cfg conf args params hparams opt options")

# Arguments of a forward.
KEY_NAMES = _words("key k keys key_states x_k k_in input_k")
VALUE_NAMES = _words("value v values val value_states x_v v_in input_v")
CONTEXT_NAMES = _words(
    """
    context memory kv key_value key_values keys_values encoder_hidden_states encoder_output encoder_out enc_output
    enc_out ctx source cond cross y x_kv kv_input kv_states
    """
)
MASK_NAMES = _words("mask attn_mask attention_mask src_mask tgt_mask msk causal_mask bias_mask")
PADDING_NAMES = _words("key_padding_mask padding_mask pad_mask src_key_padding_mask key_mask kv_mask")
CAUSAL_FLAG_NAMES = _words("is_causal causal use_causal use_causal_mask")

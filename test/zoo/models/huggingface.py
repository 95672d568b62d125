"""Models of the library transformers, in its own classes with small configurations and random weights."""

import torch
import transformers as tf
from torch import nn

from .case import ADAMW, BATCH, FEW, STEPS, Case, classes, images, model

VOCAB, LENGTH = 96, 16
SPECIAL = 3  # padding and the like come first, and are not in the data: ONNX has no `padding_idx`, whose row has no gradient in PyTorch
SMALL = {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def tokens(length=LENGTH, batch=BATCH):
    return SPECIAL + classes(VOCAB - SPECIAL, length, batch=batch)


def sentences(published):
    """Inputs and labels of a language model."""
    length, batch = (128, FEW) if published else (LENGTH, BATCH)
    return {"data": {"input_ids": tokens(length, batch), "labels": tokens(length, batch)}, "batch": batch}


class Loss(nn.Module):
    """The model with its own loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        every = torch.ones_like(input_ids)
        return self.model(input_ids=input_ids, attention_mask=every, labels=labels, **self.options).loss

    options = {"return_dict": True}


class CausalLoss(Loss):
    options = {"return_dict": True, "use_cache": False}


def causal(network, published=False):
    return Case(CausalLoss(network), loss="cross-entropy of the next token", optimizer=dict(ADAMW), **sentences(published))


def masked(network, published=False):
    return Case(Loss(network), loss="cross-entropy of masked tokens", optimizer=dict(ADAMW), **sentences(published))


@model("BERT")
def bert(published=False):
    size = {} if published else {**SMALL, "max_position_embeddings": 32}
    return masked(tf.BertForMaskedLM(tf.BertConfig(**size, **NO_DROPOUT)), published)


@model("RoBERTa")
def roberta():
    return masked(tf.RobertaForMaskedLM(tf.RobertaConfig(**SMALL, **NO_DROPOUT, max_position_embeddings=40, pad_token_id=1)))


@model("ALBERT")
def albert():
    return masked(tf.AlbertForMaskedLM(tf.AlbertConfig(**SMALL, **NO_DROPOUT, embedding_size=16, max_position_embeddings=32)))


@model("DistilBERT")
def distilbert():
    config = tf.DistilBertConfig(vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32,
                                 dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0)
    data = {"input_ids": tokens(), "labels": classes(4)}
    network = tf.DistilBertForSequenceClassification(type(config)(**{**config.to_dict(), "num_labels": 4}))
    return Case(Loss(network), data, "cross-entropy of 4 classes of sequences", dict(ADAMW))


@model("GPT-2")
def gpt2(published=False):
    size = {} if published else {"vocab_size": VOCAB, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
    return causal(tf.GPT2LMHeadModel(tf.GPT2Config(**size, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)), published)


@model("Llama")
def llama():
    return causal(tf.LlamaForCausalLM(tf.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=32)))


@model("Mistral")
def mistral():
    return causal(tf.MistralForCausalLM(tf.MistralConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=32, sliding_window=8)))


@model("Qwen2")
def qwen2():
    return causal(tf.Qwen2ForCausalLM(tf.Qwen2Config(**SMALL, num_key_value_heads=2, max_position_embeddings=32)))


@model("Mixtral")
def mixtral():
    return causal(tf.MixtralForCausalLM(tf.MixtralConfig(
        **SMALL, num_key_value_heads=2, max_position_embeddings=32, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm")))


@model("Mamba")
def mamba():
    return causal(tf.MambaForCausalLM(tf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, state_size=8)))


@model("T5")
def t5():
    config = tf.T5Config(attn_implementation="eager", vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False,
                         pad_token_id=0, decoder_start_token_id=0)
    return Case(CausalLoss(tf.T5ForConditionalGeneration(config)),
                {"input_ids": tokens(), "labels": tokens(10)}, "cross-entropy of the target's tokens", dict(ADAMW))


class WhisperLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, features, labels):
        return self.model(input_features=features, decoder_attention_mask=torch.ones_like(labels), labels=labels, use_cache=False).loss


@model("Whisper")
def whisper():
    config = tf.WhisperConfig(vocab_size=VOCAB, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                              decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20,
                              max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                              dropout=0.0, suppress_tokens=None, begin_suppress_tokens=None)
    data = {"features": torch.randn(STEPS * BATCH, 16, 40), "labels": tokens(10)}
    return Case(WhisperLoss(tf.WhisperForConditionalGeneration(config)), data, "cross-entropy of the transcript's tokens", dict(ADAMW))


class ClipLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, pixels):
        return self.model(input_ids=input_ids, pixel_values=pixels, return_loss=True).loss


@model("CLIP")
def clip():
    text = {**SMALL, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    vision = {**{k: v for k, v in SMALL.items() if k != "vocab_size"}, "image_size": 32, "patch_size": 8}
    config = tf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    return Case(ClipLoss(tf.CLIPModel(config)), {"input_ids": tokens(), "pixels": images(size=32)},
                "contrastive, between all pairs of a batch", dict(ADAMW))

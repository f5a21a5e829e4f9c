"""Makes tiny models with random weights: `python tiny_models.py DIRECTORY`, where PyTorch and transformers are."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

TEXTS = ["The quick brown fox jumps over the lazy dog.", "Ärger über 42 Öfen, naïve façade.", "user assistant system"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer_of(*, ends: bool) -> PreTrainedTokenizerFast:
    """Byte-level, so that any text can be read; with `ends`, inputs end in </s>, as T5's do."""
    own = Tokenizer(models.BPE(unk_token=None))
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    own.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    own.train_from_iterator(TEXTS, trainer)
    if ends:
        own.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=own,
        pad_token="<pad>",
        eos_token="</s>",
        model_max_length=128,
        clean_up_tokenization_spaces=False,
    )


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Writes one, as a repository of the hub has it."""
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def talkative(model: PreTrainedModel) -> PreTrainedModel:
    """Generates up to max_tokens, and only tokens that are text."""
    model.generation_config.suppress_tokens = [0, 1]
    return model


def main(directory: Path) -> None:
    """All of them, each in a directory of its own."""
    torch.manual_seed(0)
    ending, plain = tokenizer_of(ends=True), tokenizer_of(ends=False)
    size = len(plain)
    t5 = T5Config(
        vocab_size=size, d_model=64, d_kv=16, num_heads=4, d_ff=128, num_layers=2, num_decoder_layers=2,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=False,
    )  # fmt: skip
    save(talkative(T5ForConditionalGeneration(t5)), ending, directory / "t5")
    gpt2 = GPT2Config(
        vocab_size=size, n_positions=128, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1, pad_token_id=0
    )
    plain.chat_template = CHAT_TEMPLATE
    save(talkative(GPT2LMHeadModel(gpt2)), plain, directory / "gpt2")
    bert = BertConfig(
        vocab_size=size, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=128, pad_token_id=0, id2label={0: "calm", 1: "loud"}, label2id={"calm": 0, "loud": 1},
    )  # fmt: skip
    save(BertForSequenceClassification(bert), ending, directory / "classifier")
    save(BertModel(bert), ending, directory / "embedder")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

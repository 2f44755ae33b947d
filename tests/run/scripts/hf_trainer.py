"""Fine-tunes a tiny BERT with the Hugging Face Trainer."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Rows(Dataset):
    def __len__(self):
        return 4 * 30

    def __getitem__(self, i):
        ids = torch.arange(i, i + 12) % 60
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.tensor(i % 2)}


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print("logged", state.global_step, float(logs["loss"]).hex())


set_seed(0)
config = BertConfig(
    vocab_size=64,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=16,
)
model = BertForSequenceClassification(config)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=4,
        max_steps=30,
        eval_strategy="steps",
        eval_steps=20,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    result = Trainer(model, arguments, train_dataset=Rows(), eval_dataset=Rows(), callbacks=[Losses()]).train()
print("loss", float(result.training_loss).hex(), sum(p.double().sum().item() for p in model.parameters()).hex())

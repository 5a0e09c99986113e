"""Random configurations of transformers' families: logits, hidden states and one step's gradients under causal, bidirectional,
padded and segmented masks."""
import json
import pathlib
import random

import dllm
import numpy as np
import torch
import transformers
from compare import Difference, Refused, close

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

FAMILIES = ["llama", "qwen2", "qwen3", "qwen3_moe", "qwen2_moe", "gemma2", "gemma3_text", "gpt2", "bert", "modernbert"]
ENCODERS = ("bert", "modernbert")


def sizes(rng: random.Random) -> dict:
    heads = rng.choice([1, 2, 4, 6])
    head = rng.choice([4, 6, 8, 16])
    return {"heads": heads, "head": head, "kv": rng.choice([n for n in (1, 2, 3, 4, 6) if heads % n == 0]), "hidden": heads * head,
            "inner": rng.choice([8, 20, 48]), "layers": rng.randint(1, 3), "vocab": rng.choice([11, 37, 64])}


def rope(rng: random.Random) -> dict:
    kind = rng.choice(["default"] * 3 + ["linear", "llama3", "yarn"])
    made = {"rope_type": kind, "rope_theta": rng.choice([100.0, 10000.0, 500000.0])}
    if kind != "default":
        made["factor"] = rng.choice([1.5, 2.0, 8.0])
    if kind in ("llama3", "yarn"):
        made["original_max_position_embeddings"] = rng.choice([8, 16])
    if kind == "llama3":
        made.update(low_freq_factor=1.0, high_freq_factor=4.0)
    if kind == "yarn" and rng.random() < .5:
        made.update(beta_fast=rng.choice([16.0, 32.0]), beta_slow=1.0)
        if rng.random() < .5:
            made["attention_factor"] = rng.choice([0.5, 1.2])
    return made


def config_of(family: str, rng: random.Random) -> dict:
    s = sizes(rng)
    base = {"vocab_size": s["vocab"], "hidden_size": s["hidden"], "intermediate_size": s["inner"], "num_hidden_layers": s["layers"],
            "num_attention_heads": s["heads"], "max_position_embeddings": 64}
    coin = lambda chance=.5: rng.random() < chance
    eps = rng.choice([1e-6, 1e-5, 1e-3])
    if family == "gpt2":
        return {"vocab_size": s["vocab"], "n_embd": s["hidden"], "n_layer": s["layers"], "n_head": s["heads"], "n_positions": 64, "n_inner": rng.choice([None, s["inner"]]),
                "activation_function": rng.choice(["gelu_new", "gelu", "relu"]), "layer_norm_epsilon": eps, "tie_word_embeddings": coin()}
    if family == "bert":
        return {**base, "hidden_act": rng.choice(["gelu", "relu", "gelu_new"]), "type_vocab_size": rng.choice([1, 2]), "layer_norm_eps": eps, "tie_word_embeddings": True}
    if family == "modernbert":
        return {**base, "hidden_activation": rng.choice(["gelu", "silu"]), "norm_eps": eps, "norm_bias": coin(.3), "attention_bias": coin(.3), "mlp_bias": coin(.3), "decoder_bias": coin(),
                "global_attn_every_n_layers": rng.choice([1, 2, 3]), "local_attention": rng.choice([2, 4, 128]), "tie_word_embeddings": coin(.7), "pad_token_id": 0,
                "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    made = {**base, "num_key_value_heads": s["kv"], "rms_norm_eps": eps, "tie_word_embeddings": coin()}
    if family in ("gemma2", "gemma3_text"):
        made.update(head_dim=rng.choice([s["head"], 2 * s["head"]]), query_pre_attn_scalar=rng.choice([s["head"], 10]), sliding_window=rng.choice([2, 3, 64]),
                    hidden_activation=rng.choice(["gelu_pytorch_tanh", "gelu"]), tie_word_embeddings=True, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        made["layer_types"] = [rng.choice(["sliding_attention", "full_attention"]) for _ in range(s["layers"])]
    if family == "gemma2":
        made.update(attn_logit_softcapping=rng.choice([None, 5.0]), final_logit_softcapping=rng.choice([None, 3.0]))
        return made
    if family == "gemma3_text":
        made["rope_parameters"] = {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0}, "full_attention": {"rope_type": rng.choice(["default"]), "rope_theta": 10000.0}}
        return made
    made["rope_parameters"] = rope(rng)
    made["hidden_act"] = rng.choice(["silu", "silu", "gelu", "relu"])
    if family in ("llama", "qwen3", "qwen3_moe"):
        made["head_dim"] = rng.choice([s["head"], 2 * s["head"]])
        made["attention_bias"] = coin(.3)
    if family == "llama":
        made["mlp_bias"] = coin(.3)
    if family.endswith("moe"):
        experts = rng.choice([2, 5, 8])
        made.update(num_experts=experts, num_experts_per_tok=rng.randint(1, min(3, experts)), moe_intermediate_size=rng.choice([4, 12]), norm_topk_prob=coin(),
                    decoder_sparse_step=rng.choice([1, 1, 2]), mlp_only_layers=[0] if coin(.2) else [])
    if family == "qwen2_moe":
        made["shared_expert_intermediate_size"] = rng.choice([4, 10])
    return made


def make(family: str, values: dict, seed: int):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **values)
    config._attn_implementation = "eager"
    kind = transformers.AutoModelForMaskedLM if family in ENCODERS else transformers.AutoModelForCausalLM
    model = kind.from_config(config, attn_implementation="eager", **({"experts_implementation": "eager"} if "moe" in family else {})).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.3 if parameter.dim() > 1 else 0.1
            parameter.add_(torch.randn_like(parameter) * spread)
    return model


def allowed(rng: random.Random, family: str, rows: int, length: int) -> tuple[str, np.ndarray, dict]:
    """(attention, (rows, length, length) what a query may see, arrays of the batch)."""
    kind = rng.choice(["plain", "padded", "segments", "mask"])
    attention = "bidirectional" if family in ENCODERS or rng.random() < .4 else "causal"
    see = np.ones((rows, length, length), bool)
    if attention == "causal":
        see &= np.tril(np.ones((length, length), bool))
    arrays: dict = {}
    if kind == "padded":
        keys = np.ones((rows, length), np.uint8)
        for row in keys:
            row[rng.randint(1, length):] = 0
        arrays["keys"], see = keys, see & (keys[:, None, :] != 0)
    if kind == "segments":
        segments = np.sort(np.array([[rng.randint(1, 3) for _ in range(length)] for _ in range(rows)], np.int32), axis=1)
        arrays["segments"], see = segments, see & (segments[:, :, None] == segments[:, None, :])
    if kind == "mask":
        mask = np.array([rng.random() < .7 for _ in range(rows * length * length)]).reshape(rows, length, length)
        mask |= np.eye(length, dtype=bool)
        arrays["mask"], see = mask.astype(np.uint8), see & mask
    return attention, see, arrays


def windowed(see: np.ndarray, model, kind: str, narrows: bool) -> torch.Tensor:
    """The same, inside the window of a kind of layer, as numbers to add."""
    length = see.shape[1]
    distance = np.arange(length)[:, None] - np.arange(length)[None, :]
    if kind == "sliding_attention" and narrows:
        if model.config.model_type == "modernbert":
            see = see & (np.abs(distance) <= model.config.local_attention // 2)
        else:
            see = see & (distance < model.config.sliding_window)
    return torch.where(torch.from_numpy(see)[:, None], 0.0, torch.finfo(torch.float32).min)


def outputs_of(model, ids, see, narrows, positions=None):
    kinds = set(getattr(model.config, "layer_types", None) or [])
    plain = windowed(see, model, "full_attention", narrows)
    mask = {kind: windowed(see, model, kind, narrows) for kind in kinds | {"full_attention"}} if "sliding_attention" in kinds else plain
    return model(input_ids=ids, attention_mask=mask, position_ids=positions, output_hidden_states=True)


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    family = rng.choice(FAMILIES)
    values = config_of(family, rng)
    theirs = make(family, values, seed)
    theirs.save_pretrained(folder)
    rows, length = rng.randint(1, 3), rng.randint(1, 14)
    ids = torch.randint(3, values["vocab_size"], (rows, length))
    attention, see, arrays = allowed(rng, family, rows, length)
    about = f"{family} {json.dumps(values)}, {attention}, {sorted(arrays)}, ids {tuple(ids.shape)}"
    try:
        ours = dllm.Model(folder, dtype="f32")
        batch = {"ids": ids.numpy().astype(np.int32), **arrays}
        got = ours.forward(batch, attention=attention, shift=0, outputs=["logits", "hidden"])
    except dllm.Error as error:
        text = str(error).splitlines()[0].replace(str(folder), "FOLDER")
        if "config.json: " in text and ("expected" in text or "not supported yet" in text):  # a value of the config that is not read
            raise Refused(f"{family}: {text}") from error
        raise Difference(f"{text}\n  {about}") from error
    # Positions count on over segments, as in transformers where none are given.
    positions = None
    # A mask that the caller gives replaces every window, as 4-D masks do there; Gemma's is one of causal attention alone.
    narrows = "mask" not in arrays and (family == "modernbert" or attention == "causal")
    want = outputs_of(theirs, ids, see, narrows, positions)
    seen = see.any(axis=2)
    if "keys" in arrays:
        seen &= arrays["keys"] != 0
    logits = want.logits.detach().numpy()
    scale = float(np.abs(logits[seen]).max())
    close(got["logits"][seen], logits[seen], f"logits\n  {about}", 2e-4 * max(1.0, scale))
    if family not in ENCODERS:
        hidden = want.hidden_states[-1].detach().numpy()
        close(got["hidden"][seen], hidden[seen], f"hidden\n  {about}", 2e-4 * max(1.0, float(np.abs(hidden).max())))
    gradients(ours, theirs, rng, ids, batch, see, attention, narrows, positions, seen, about)


def gradients(ours, theirs, rng, ids, batch, see, attention, narrows, positions, seen, about) -> None:
    """One step of gradient descent at rate 1 moves every parameter by its gradient."""
    rows, length = ids.shape
    targets = np.array([[rng.randrange(theirs.config.vocab_size) if seen[b, i] and rng.random() < .7 else -1 for i in range(length)] for b in range(rows)], np.int32)
    if not (targets >= 0).any():
        return
    weights = np.array([rng.choice([0.5, 1.0, 2.0]) for _ in range(rows * length)], np.float32).reshape(rows, length)
    before = {name: ours.param(name).read("f32") for name in ours.param_names()}
    objective = dllm.Objective("token_ce", attention=attention, shift=0)
    trainer = dllm.Trainer(ours, objective, optimizer="sgd", lr=1.0, warmup=0, clip=0, weight_decay=0)
    loss = trainer.step({**batch, "targets": targets, "weights": weights})
    logits = outputs_of(theirs, ids, see, narrows, positions).logits
    on = torch.from_numpy(targets >= 0)
    each = torch.nn.functional.cross_entropy(logits[on], torch.from_numpy(targets).long()[on], reduction="none")
    wanted = (each * torch.from_numpy(weights)[on]).sum() / on.sum()
    close(loss, wanted.item(), f"loss\n  {about}", 1e-4, 1e-4)
    wanted.backward()
    after = {name: trainer.model().param(name).read("f32") for name in ours.param_names()}
    compared = 0
    for name, parameter in theirs.named_parameters():
        if name not in before or parameter.grad is None or before[name].shape != tuple(parameter.shape):
            continue
        moved, gradient = before[name] - after[name], parameter.grad.numpy()
        close(moved, gradient, f"gradient of {name}\n  {about}", 3e-4 * max(1.0, float(np.abs(gradient).max())))
        compared += 1
    if compared == 0:
        raise Difference(f"no parameter has the name of theirs: {sorted(before)[:4]}\n  {about}")

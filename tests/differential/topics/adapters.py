"""Random adapters (LoRA, DoRA, (IA)3) that PEFT makes and saves, and random ones of ours, on small models of transformers: logits of both."""
import json
import pathlib
import random
import re
import warnings

import dllm
import numpy as np
import peft
import torch
import transformers
from compare import Difference, Refused, close

warnings.simplefilter("ignore")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

CONFIGS = {
    "llama": {"num_key_value_heads": 2, "tie_word_embeddings": False},
    "qwen2": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 8, "tie_word_embeddings": False},
    "gpt2": {},
}
TARGETS = {"gpt2": ["c_attn", "c_proj", "c_fc"]}
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def base_model(family: str, seed: int):
    torch.manual_seed(seed)
    values = {"vocab_size": 41, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32, **CONFIGS[family]}
    if family == "gpt2":
        values = {"vocab_size": 41, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
    config = transformers.AutoConfig.for_model(family, **values)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def adapter_config(rng: random.Random, family: str) -> dict:
    modules = TARGETS.get(family, MODULES)
    chosen = rng.sample(modules, rng.randint(1, len(modules)))
    made: dict = {"r": rng.choice([1, 2, 4, 7]), "lora_alpha": rng.choice([1, 4, 16, 2.5]), "target_modules": chosen, "lora_dropout": rng.choice([0.0, 0.3]),
                  "use_rslora": rng.random() < .3, "bias": rng.choice(["none"] * 12 + ["all", "lora_only"]), "task_type": "CAUSAL_LM"}
    if family == "gpt2":
        made["fan_in_fan_out"] = True
    way = rng.choice(["list", "list", "all-linear", "regex"])
    if way == "all-linear":
        made["target_modules"] = "all-linear"
    if way == "regex":
        made["target_modules"] = rf".*\.({'|'.join(chosen)})"
    if rng.random() < .15:
        made["rank_pattern"] = {rng.choice(chosen): rng.choice([1, 3]), **({rf"^model\.layers\.0\..*{chosen[0]}": 2} if rng.random() < .5 and family != "gpt2" else {})}
    if rng.random() < .15:
        made["alpha_pattern"] = {rng.choice(chosen): rng.choice([2, 9])}
    if rng.random() < .2 and way == "list":
        made["layers_to_transform"] = rng.choice([0, [1], [0, 1]])
    if rng.random() < .15:
        made["exclude_modules"] = [chosen[0]] if len(chosen) > 1 else None
    if rng.random() < .25:
        made["use_dora"] = True
    if rng.random() < .3 and family != "gpt2":
        made["modules_to_save"] = rng.choice([["lm_head"], ["embed_tokens", "lm_head"], ["embed_tokens"], ["norm"], ["input_layernorm", "model.norm"]])
        made["ensure_weight_tying"] = CONFIGS[family]["tie_word_embeddings"] and rng.random() < .6
    if rng.random() < .05:
        made["lora_bias"] = made["bias"] == "none"
    return made


def ia3_config(rng: random.Random, family: str) -> dict:
    modules = TARGETS.get(family, MODULES)
    chosen = rng.sample(modules, rng.randint(1, len(modules)))
    feedforward = rng.sample(chosen, rng.randint(0, len(chosen)))
    made: dict = {"target_modules": chosen, "feedforward_modules": feedforward, "task_type": "CAUSAL_LM", "fan_in_fan_out": family == "gpt2"}
    if rng.random() < .3:
        made["target_modules"] = rf".*\.({'|'.join(chosen)})"
        made["feedforward_modules"] = rf".*\.({'|'.join(feedforward or ['none'])})"
    if rng.random() < .2 and family != "gpt2":
        made["modules_to_save"] = ["norm"]
    return made


def check_ours(rng: random.Random, family: str, seed: int, folder: pathlib.Path, ids: torch.Tensor) -> None:
    """An adapter that the library makes: PEFT reads its folder, with our logits."""
    modules = TARGETS.get(family, MODULES)
    settings = {"rank": rng.choice([1, 2, 5]), "alpha": rng.choice([1.0, 8.0, 2.5]), "rslora": rng.random() < .3, "dora": rng.random() < .3,
                "targets": rng.choice([["all-linear"], rng.sample(modules, rng.randint(1, len(modules)))]), "seed": seed}
    if rng.random() < .25:
        settings = {"kind": "ia3", "targets": settings["targets"], "seed": seed}
    if rng.random() < .3:
        settings["layers"] = [rng.choice(["0", "1", "0-1"])]
    if rng.random() < .4 and family != "gpt2":
        settings["modules_to_save"] = rng.choice([["embed_tokens"], ["lm_head"], ["embed_tokens", "lm_head"], ["norm"]])
    about = f"{family} {json.dumps(settings)}"
    ours = dllm.Model(folder / "base", dtype="f32")
    ours.add_adapter(**settings)
    for name in ours.param_names():
        if "lora_" in name or "ia3_" in name or name.startswith("adapter:"):
            values = np.array(ours.param(name))
            ours.set_param(name, (values + np.random.default_rng(seed).normal(0, 0.3, values.shape)).astype(np.float32))
    want = ours.forward({"ids": ids.numpy().astype(np.int32)}, attention="causal", shift=0)["logits"]
    ours.save_adapter(folder / "made")
    read = peft.PeftModel.from_pretrained(base_model(family, seed), folder / "made").eval()
    with torch.no_grad():
        got = read(input_ids=ids).logits.numpy()
    close(got, want, f"logits of PEFT with an adapter of ours\n  {about}", 2e-4 * max(1.0, float(np.abs(got).max())))


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    family = rng.choice(list(CONFIGS)[:3] * 4 + ["gpt2"])
    base = base_model(family, seed)
    base.save_pretrained(folder / "base")
    settings = adapter_config(rng, family)
    is_ia3 = rng.random() < .25
    if is_ia3:
        settings = ia3_config(rng, family)
    try:
        adapted = peft.get_peft_model(base, (peft.IA3Config if is_ia3 else peft.LoraConfig)(**settings)).eval()
    except Exception as error:  # combinations that PEFT refuses
        raise Refused(f"PEFT: {type(error).__name__}") from error
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name or "ia3_" in name or parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    adapted.save_pretrained(folder / "adapter")
    ids = torch.randint(0, 41, (2, 9))
    with torch.no_grad():
        want = adapted(input_ids=ids).logits.numpy()
    about = f"{family} {json.dumps(settings)}"
    try:
        ours = dllm.Model(folder / "base", adapter=str(folder / "adapter"), dtype="f32")
    except dllm.Error as error:
        text = str(error).splitlines()[0].replace(str(folder), "FOLDER")
        named = re.search(r"adapter_config.json: (\w+)( = .+)? is not supported", text)
        if named and settings.get(named[1]):  # a key that changes numbers, refused by its name
            raise Refused(f"{named[1]} is not supported") from error
        tables = {"embed_tokens", "lm_head"} & set(settings.get("modules_to_save", []))
        tied = CONFIGS[family].get("tie_word_embeddings", True) and tables and not settings.get("ensure_weight_tying")
        special = ["modules_to_save"] * bool(tied) + ["lora_bias"] * bool(settings.get("lora_bias")) + ["bias"] * (settings.get("bias", "none") != "none")
        if special:
            raise Refused(", ".join(special)) from error
        try:  # JSON has the patterns in another order, of which the first that matches counts
            peft.PeftModel.from_pretrained(base_model(family, seed), folder / "adapter")
        except RuntimeError as theirs:
            raise Refused("PEFT does not read its own folder") from theirs
        raise Difference(f"{text}\n  {about}") from error
    got = ours.forward({"ids": ids.numpy().astype(np.int32)}, attention="causal", shift=0)["logits"]
    most = 2e-4 * max(1.0, float(np.abs(want).max()))
    close(got, want, f"logits\n  {about}", most)
    ours.save_adapter(folder / "ours")
    read = peft.PeftModel.from_pretrained(base_model(family, seed), folder / "ours").eval()
    with torch.no_grad():
        close(read(input_ids=ids).logits.numpy(), want, f"logits of PEFT with our folder\n  {about}", most)
    check_ours(rng, family, seed, folder, ids)

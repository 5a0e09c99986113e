"""Random models in fp8 (e4m3) and int8 with scales, as transformers and compressed-tensors name them: weights and logits."""
import json
import pathlib
import random
import warnings

import dllm
import numpy as np
import safetensors.torch
import torch
import transformers
from compare import Difference, close

warnings.simplefilter("ignore")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


def base_model(rng: random.Random, seed: int):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(
        rng.choice(["llama", "qwen2", "qwen3"]), vocab_size=41, hidden_size=rng.choice([32, 64, 128]),
        intermediate_size=rng.choice([64, 96, 192, 200]), num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=rng.choice([8, 16]), max_position_embeddings=32, tie_word_embeddings=rng.random() < .5)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


class Packing:
    """How a folder is packed: its numbers, the blocks of scales, and their names."""

    def __init__(self, rng: random.Random):
        self.kind = rng.choice(["e4m3", "e4m3", "int8"])
        self.blocks = rng.choice(["tensor", "row", "block", "group"])
        self.block = {"block": rng.choice([(128, 128), (16, 32), (64, 64)]), "group": (1, rng.choice([8, 32]))}.get(self.blocks)
        self.is_old = self.kind == "e4m3" and self.blocks in ("tensor", "block") and rng.random() < .5  # transformers' own "fp8"
        self.scale_type = rng.choice([torch.float32, torch.bfloat16])
        self.flat = rng.random() < .3
        self.has_inputs = rng.random() < .3

    def __str__(self):
        return f"{self.kind} {self.blocks} {self.block} {self.scale_type} old {self.is_old}"

    def config(self) -> dict:
        if self.is_old:
            return {"quant_method": "fp8", "activation_scheme": "dynamic", **({"weight_block_size": list(self.block)} if self.block else {})}
        weights: dict = {"num_bits": 8, "type": "float" if self.kind == "e4m3" else "int", "symmetric": True, "strategy": {"row": "channel"}.get(self.blocks, self.blocks)}
        if self.blocks == "block":
            weights["block_structure"] = list(self.block)
        if self.blocks == "group":
            weights["group_size"] = self.block[1]
        return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}, "ignore": ["lm_head"]}

    def pack(self, weight: torch.Tensor):
        """Bytes, scales, and the numbers that they stand for."""
        rows, columns = weight.shape
        high, wide = {"tensor": (rows, columns), "row": (1, columns)}.get(self.blocks) or self.block
        down, across = -(-rows // high), -(-columns // wide)
        padded = torch.zeros(down * high, across * wide)
        padded[:rows, :columns] = weight
        tops = padded.reshape(down, high, across, wide).abs().amax((1, 3))
        scales = (tops.clamp_min(1e-6) / (448 if self.kind == "e4m3" else 127)).to(self.scale_type)
        every = scales.float().repeat_interleave(high, 0).repeat_interleave(wide, 1)[:rows, :columns]
        if self.kind == "e4m3":
            stored = (weight / every).clamp(-448, 448).to(torch.float8_e4m3fn)
        else:
            stored = (weight / every).round().clamp(-128, 127).to(torch.int8)
        numbers = stored.float() * every
        if self.blocks == "tensor":
            scales = scales.reshape(1)
        elif self.blocks == "row" and self.flat:
            scales = scales.reshape(-1)
        return stored, scales.contiguous(), numbers


def write(model, packing: Packing, folder: pathlib.Path) -> dict[str, torch.Tensor]:
    """Saves the packed model; the numbers of its matrices go into the model itself, and are returned."""
    model.save_pretrained(folder)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    numbers = {}
    for name in [name for name in tensors if "_proj.weight" in name]:
        stored, scales, numbers[name] = packing.pack(tensors[name])
        tensors |= {name: stored, name + ("_scale_inv" if packing.is_old else "_scale"): scales}
        if packing.has_inputs:
            tensors[name.removesuffix("weight") + "input_scale"] = torch.ones(1)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = packing.config()
    (folder / "config.json").write_text(json.dumps(config))
    with torch.no_grad():
        for name, values in numbers.items():
            model.get_parameter(name).copy_(values)
    return numbers


def check_theirs(folder: pathlib.Path, numbers: dict[str, torch.Tensor], about: str) -> None:
    """transformers unpacks its own kind of fp8 without a GPU: into bf16."""
    settings = transformers.FineGrainedFP8Config(dequantize=True)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=settings, dtype=torch.float32)
    for name, values in numbers.items():
        found = theirs.get_parameter(name).float().detach().numpy()
        close(found, values.numpy(), f"{name} of transformers\n  {about}", 1e-6, 2 ** -7)


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    model, packing = base_model(rng, seed), Packing(rng)
    numbers = write(model, packing, folder / "packed")
    about = f"{packing}, hidden {model.config.hidden_size}, intermediate {model.config.intermediate_size}"
    # transformers 5.24 takes the size of blocks from the number of scales, which is wrong for a last block that is short.
    if packing.is_old and all(side % edge == 0 for values in numbers.values() for side, edge in zip(values.shape, packing.block or ())):
        check_theirs(folder / "packed", numbers, about)
    exact = dllm.Model(folder / "packed", dtype="f32")
    kept = dllm.Model(folder / "packed")
    is_exact = packing.kind == "int8" and packing.blocks in ("tensor", "row")
    for name, values in numbers.items():
        wanted = values.numpy()
        if not np.array_equal(np.array(exact.param(name)), wanted):
            raise Difference(f"{name} differs\n  {about}")
        top = float(np.abs(wanted).max())
        close(np.array(kept.param(name)), wanted, f"{name} as it is kept\n  {about}", 0.0 if is_exact else top * (1 / 254 + 1 / 2048))
    with torch.no_grad():
        ids = torch.randint(0, 41, (2, 9))
        want = model(input_ids=ids).logits.numpy()
    got = exact.forward({"ids": ids.numpy().astype(np.int32)}, attention="causal", shift=0)["logits"]
    close(got, want, f"logits\n  {about}", 2e-4 * max(1.0, float(np.abs(want).max())))

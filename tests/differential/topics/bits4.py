"""Random models that transformers packs by bitsandbytes, and ours that it reads: weights bit for bit, and logits."""
import pathlib
import random
import warnings

import bitsandbytes
import dllm
import numpy as np
import torch
import transformers
from compare import Difference, Refused, close

warnings.simplefilter("ignore")
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


def base_model(rng: random.Random, seed: int):
    torch.manual_seed(seed)
    family = rng.choice(["llama", "qwen2", "qwen3"])
    config = transformers.AutoConfig.for_model(
        family, vocab_size=41, hidden_size=rng.choice([32, 64, 128]), intermediate_size=rng.choice([64, 96, 192]), num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=rng.choice([8, 16]), max_position_embeddings=32, tie_word_embeddings=rng.random() < .5)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * rng.choice([0.02, 0.2]))
    return model


def settings_of(rng: random.Random) -> transformers.BitsAndBytesConfig:
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=rng.choice(["nf4", "fp4"]),
                                           bnb_4bit_use_double_quant=rng.random() < .5, bnb_4bit_compute_dtype=torch.float32)


def numbers_of(module) -> np.ndarray:
    """The numbers of a packed matrix, by its bytes. A pass of bitsandbytes on a CPU packs them anew, so this comes before it.

    Its own dequantize_4bit is wrong on CPUs for rows that are not whole blocks: far from the numbers that were packed (0.50.2).
    """
    state = module.weight.quant_state
    pairs = module.weight.data.numpy().ravel()
    levels = state.code.numpy()[np.stack([pairs >> 4, pairs & 15], 1).ravel()][:np.prod(state.shape)]
    tops = state.absmax
    if state.nested:
        tops = bitsandbytes.functional.dequantize_blockwise(tops, state.state2) + state.offset
    numbers = (levels * np.repeat(tops.float().numpy(), state.blocksize)[:levels.size]).reshape(state.shape)
    if state.shape[1] % state.blocksize == 0:
        theirs = bitsandbytes.functional.dequantize_4bit(module.weight.data, state).float().numpy()
        if not np.array_equal(theirs, numbers):
            raise Difference("this test does not unpack as bitsandbytes does")
    return numbers


def unpacked(model) -> dict[str, np.ndarray]:
    return {name: numbers_of(module) for name, module in model.named_modules() if isinstance(module, bitsandbytes.nn.Linear4bit)}


def check_weights(ours: dllm.Model, wanted: dict[str, np.ndarray], about: str) -> None:
    for name, numbers in wanted.items():
        found = np.array(ours.param(f"{name}.weight"))
        if not np.array_equal(found, numbers):
            raise Difference(f"{name} differs by {np.abs(found - numbers).max()}\n  {about}")


def run_case(seed: int, folder: pathlib.Path) -> None:
    rng = random.Random(seed)
    model = base_model(rng, seed)
    model.save_pretrained(folder / "base")
    settings = settings_of(rng)
    about = (f"{settings.bnb_4bit_quant_type}, double {settings.bnb_4bit_use_double_quant}, "
             f"hidden {model.config.hidden_size}, intermediate {model.config.intermediate_size}")
    try:
        packed = transformers.AutoModelForCausalLM.from_pretrained(folder / "base", quantization_config=settings, dtype=torch.float32)
        packed.save_pretrained(folder / "packed")
    except Exception as error:  # shapes that bitsandbytes refuses
        raise Refused(f"bitsandbytes: {type(error).__name__}") from error
    numbers = unpacked(packed)
    ours = dllm.Model(folder / "packed")
    check_weights(ours, numbers, about)
    # The logits of a plain model with these numbers: the product of bitsandbytes rounds to bf16.
    with torch.no_grad():
        for name, values in numbers.items():
            model.get_submodule(name).weight.copy_(torch.tensor(values))
        ids = torch.randint(0, 41, (2, 9))
        want = model(input_ids=ids).logits.numpy()
    got = ours.forward({"ids": ids.numpy().astype(np.int32)}, attention="causal", shift=0)["logits"]
    close(got, want, f"logits\n  {about}", 2e-4 * max(1.0, float(np.abs(want).max())))

    kind, double = settings.bnb_4bit_quant_type, settings.bnb_4bit_use_double_quant
    dllm.Model.quantize(folder / "base", folder / "ours", format=kind, double_quant=double)
    read = transformers.AutoModelForCausalLM.from_pretrained(folder / "ours", dtype=torch.float32)
    again = unpacked(read)
    if set(again) != set(numbers):
        raise Difference(f"packed modules {sorted(set(again) ^ set(numbers))}\n  {about}")
    check_weights(dllm.Model(folder / "ours"), again, f"ours {about}")
    for name, values in again.items():
        # Coded scales may differ where two codes are equally near, by one step of the map.
        step = 0.03 * float(np.abs(values).max()) if double else 0.0
        close(values, numbers[name], f"{name} of both\n  {about}", step)

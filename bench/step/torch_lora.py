"""One masked-token training step of LoRA adapters in PyTorch with PEFT on the CPU. Peer of lora_step_bench.cpp (protocol:
peer.h); a Qwen2 model of transformers with random weights. Arguments: layers hidden heads kv_heads inner vocab batch length
threads rank [f32|bf16]. The base has the type of the last argument; PEFT keeps A and B in f32. A line "peak" returns the most
bytes that the process had in memory since the line "ready", then 0."""
import ctypes
import os
import sys
import time

import peft
import torch
import transformers

os.environ["HF_HUB_OFFLINE"] = "1"
layers, hidden, heads, kv_heads, inner, vocab, batch, length, threads, rank = map(int, sys.argv[1:11])
dtype = torch.bfloat16 if sys.argv[11:] == ["bf16"] else torch.float32
torch.set_num_threads(threads)
torch.manual_seed(0)
config = transformers.Qwen2Config(
    vocab_size=vocab, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
    num_key_value_heads=kv_heads, intermediate_size=inner, max_position_embeddings=4096, tie_word_embeddings=True,
    use_cache=False)
torch.set_default_dtype(dtype)
net = transformers.Qwen2ForCausalLM(config)
torch.set_default_dtype(torch.float32)
net = peft.get_peft_model(net, peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
trained = [p for p in net.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.01)
own = net.base_model.model
for module in own.modules():
    if hasattr(module, "is_causal"):
        module.is_causal = False  # each token sees all tokens
seen = torch.zeros(batch, 1, length, length, dtype=dtype)


def step():
    clean = torch.randint(0, vocab - 1, (batch, length))
    times = torch.rand(batch, 1) * 0.999 + 0.001
    hit = torch.rand(batch, length) < times
    ids = torch.where(hit, vocab - 1, clean)
    rows = hit.reshape(-1).nonzero().squeeze(1)
    x = own.model(input_ids=ids, attention_mask=seen).last_hidden_state.reshape(-1, hidden)[rows]
    nll = torch.nn.functional.cross_entropy(own.lm_head(x).float(), clean.reshape(-1)[rows], reduction="none")
    loss = (nll / times.expand(batch, length).reshape(-1)[rows]).sum() / clean.numel()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()


def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


step()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/clear_refs", "w") as clear:
    clear.write("5")  # VmHWM begins again
step()
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "peak":
        print(peak(), 0, flush=True)
        continue
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)

"""One masked-token training step in PyTorch on the CPU. Peer of train_step_bench.cpp (protocol: peer.h); random
weights of the same shapes. Arguments: layers hidden heads inner vocab batch length threads [f32|bf16].
bf16: the forward pass and the loss under torch.autocast, weights and moments f32."""
import sys
import time

import torch

layers, hidden, heads, inner, vocab, batch, length, threads = map(int, sys.argv[1:9])
narrow = len(sys.argv) > 9 and sys.argv[9] == "bf16"
torch.set_num_threads(threads)
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocab, hidden)
        self.places = torch.nn.Embedding(length, hidden)
        block = torch.nn.TransformerEncoderLayer(hidden, heads, inner, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = torch.nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.norm = torch.nn.LayerNorm(hidden)

    def forward(self, ids, rows):
        x = self.tokens(ids) + self.places(torch.arange(length))
        x = self.norm(self.blocks(x)).reshape(-1, hidden)[rows]
        return x @ self.tokens.weight.T  # tied head, masked rows only


net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.01)


def step():
    clean = torch.randint(0, vocab - 1, (batch, length))
    times = torch.rand(batch, 1) * 0.999 + 0.001
    hit = torch.rand(batch, length) < times
    ids = torch.where(hit, vocab - 1, clean)
    rows = hit.reshape(-1).nonzero().squeeze(1)
    with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        logits = net(ids, rows)
        nll = torch.nn.functional.cross_entropy(logits, clean.reshape(-1)[rows], reduction="none")
    loss = (nll / times.expand(batch, length).reshape(-1)[rows]).sum() / clean.numel()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()


step()
step()
print("ready", flush=True)
for _ in sys.stdin:
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)

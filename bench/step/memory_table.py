#!/usr/bin/env python3
"""Which published diffusion language models fit the memory of a machine, in which weight format: a Markdown table.

    bench/step/memory_table.py build/release/bin/dllm [--gib 24] [--length 2048] [--window 32] [--show NAME]

Nothing is loaded: `dllm graph` plans one denoising step of one request against a full cache, from the sizes in the model's
config.json alone. GiB are the larger of what loading takes at its peak and what a step takes: weights, cache, temporaries.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

FORMATS = ["bf16", "int8", "q8_0", "q4_k"]


def grouped(kind, layers, hidden, inner, heads, kv_heads, vocab, tied=False, **more):
    """A network of the Llama kind with grouped queries."""
    return {"model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": inner,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocab, "tie_word_embeddings": tied,
            "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "mask_token_id": 0, **more}


def qwen3(kind, layers, hidden, inner, heads, tied):
    return grouped(kind, layers, hidden, inner, heads, 8, 151936, tied, head_dim=128)


def experts_30b(kind):
    """Qwen3-30B-A3B."""
    return grouped(kind, 48, 2048, 6144, 32, 4, 151936, head_dim=128, num_experts=128, num_experts_per_tok=8,
                   moe_intermediate_size=768, norm_topk_prob=True, decoder_sparse_step=1)


def diffusion_gemma():
    """DiffusionGemma 26B-A4B: every sixth layer sees everything, with wider heads."""
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 5
    text = {"model_type": "diffusion_gemma_text", "hidden_size": 2816, "num_hidden_layers": 30, "num_attention_heads": 16,
            "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 2112, "vocab_size": 262144, "layer_types": kinds,
            "sliding_window": 1024, "global_head_dim": 512, "num_global_key_value_heads": 2, "attention_k_eq_v": True,
            "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 262144, "final_logit_softcapping": 30.0, "tie_word_embeddings": True,
            "hidden_activation": "gelu_pytorch_tanh", "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}}}
    return {"model_type": "diffusion_gemma", "canvas_length": 256, "text_config": text}


def llada2(layers, hidden, inner, heads, expert):
    return grouped("llada2_moe", layers, hidden, inner, heads, 4, 157184, head_dim=128, num_experts=256, num_experts_per_tok=8,
                   num_shared_experts=1, moe_intermediate_size=expert, n_group=8, topk_group=4, first_k_dense_replace=1,
                   routed_scaling_factor=2.5, score_function="sigmoid", moe_router_enable_expert_bias=True,
                   partial_rotary_factor=0.5, use_qk_norm=True, norm_topk_prob=True)


# Name of the weights on the Hugging Face hub, sizes as in its config.json (LLaDA-8B has 32 heads of keys: no grouping).
PUBLISHED = {
    "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1": qwen3("qwen3", 28, 1024, 3072, 16, True),
    "Efficient-Large-Model/Fast_dLLM_v2_1.5B": grouped("Fast_dLLM_Qwen", 28, 1536, 8960, 12, 2, 151936, True, bd_size=32),
    "JetLM/SDAR-1.7B-Chat": qwen3("sdar", 28, 2048, 6144, 16, True),
    "JetLM/SDAR-4B-Chat": qwen3("sdar", 36, 2560, 9728, 32, True),
    "JetLM/SDAR-8B-Chat": qwen3("sdar", 36, 4096, 12288, 32, False),
    "Dream-org/Dream-v0-Instruct-7B": grouped("Dream", 28, 3584, 18944, 28, 4, 152064),
    "Efficient-Large-Model/Fast_dLLM_v2_7B": grouped("Fast_dLLM_Qwen", 28, 3584, 18944, 28, 4, 152064, bd_size=32),
    "tencent/WeDLM-8B-Instruct": grouped("wedlm", 36, 4096, 12288, 32, 8, 151936, head_dim=128, qk_norm=True),
    "GSAI-ML/LLaDA-8B-Instruct": {
        "model_type": "llada", "d_model": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "mlp_hidden_size": 12288,
        "vocab_size": 126464, "embedding_size": 126464, "max_sequence_length": 4096, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
        "mask_token_id": 126336, "weight_tying": False, "rope": True, "layer_norm_type": "rms", "activation_type": "silu",
        "block_type": "llama", "include_bias": False},
    "inclusionAI/LLaDA-MoE-7B-A1B-Instruct": grouped("llada_moe", 16, 2048, 8192, 16, 16, 157184, num_experts=64, num_experts_per_tok=8,
                                                     expert_intermediate_size=1024, qk_layernorm=True, moe_layer_freq=[1] * 16),
    "inclusionAI/LLaDA2.0-mini": llada2(20, 2048, 5120, 16, 512),
    "nvidia/Nemotron-Labs-Diffusion-3B": grouped("nemotron_labs_diffusion", 26, 3072, 9216, 32, 8, 131072, True, head_dim=128),
    "nvidia/Nemotron-Labs-Diffusion-8B": grouped("nemotron_labs_diffusion", 34, 4096, 14336, 32, 8, 131072, head_dim=128),
    "nvidia/Nemotron-Labs-Diffusion-14B": grouped("nemotron_labs_diffusion", 40, 5120, 16384, 32, 8, 131072, head_dim=128),
    "google/diffusiongemma-26B-A4B-it": diffusion_gemma(),
    "JetLM/SDAR-30B-A3B-Chat": experts_30b("sdar_moe"),
    "radicalnumerics/RND1-Base-0910": experts_30b("qwen3_moe"),
    "inclusionAI/LLaDA2.0-flash": llada2(32, 4096, 9216, 32, 1024),
}


def plan(program, config, weights, chosen):
    """(bytes at the peak, bytes of the weights), or the reason why there is no plan."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "config.json")
        path.write_text(json.dumps(config))
        done = subprocess.run([program, "graph", "--model", str(path), "--what", "decode", "--plan.dtype", weights, "--batch", "1",
                               "--length", str(chosen.length), "--window", str(chosen.window), "--json"],
                              capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    made = json.loads(done.stdout)
    return max(made["loading"], made["peak"]), made["weights"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--gib", type=float, default=24, help="memory of the machine")
    arguments.add_argument("--length", type=int, default=2048, help="positions of the cache")
    arguments.add_argument("--window", type=int, default=32, help="positions of a step")
    arguments.add_argument("--show", help="print the config of one model and end")
    chosen = arguments.parse_args()
    if chosen.show:
        print(json.dumps(PUBLISHED[chosen.show], indent=2))
        return
    print("| weights | parameters | " + " | ".join(f"{name} GiB" for name in FORMATS) + f" | largest that fits {chosen.gib:g} GiB |")
    print("|---|---|" + "---|" * (len(FORMATS) + 1))
    for name, config in PUBLISHED.items():
        plans = {weights: plan(chosen.program, config, weights, chosen) for weights in FORMATS}
        failed = next((made for made in plans.values() if isinstance(made, str)), None)
        if failed:
            print(f"| {name} | {failed} |")
            continue
        fits = [weights for weights, made in plans.items() if made[0] <= chosen.gib * 2**30]
        cells = " | ".join(f"{made[0] / 2**30:.1f}" for made in plans.values())
        print(f"| {name} | {plans['bf16'][1] / 2e9:.1f} B | {cells} | {fits[0] if fits else '**none**'} |")


if __name__ == "__main__":
    main()

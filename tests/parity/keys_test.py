#!/usr/bin/env python3
"""Every key of a golden case is read by a handler, or is a note with a name: keys_test.py GOLDEN.

A key that no handler names is a parameter that is taken from a constant, or a result that is not compared."""
import json
import pathlib
import re
import sys

# Of any topic: what the makers of the numbers wrote down about them.
NOTES = {"note", "notes", "seed_try", "stable_under_logit_noise", "smallest_margins", "logit_absmax", "blank", "description"}
NOTES_BEGIN = ("smallest_", "min_top1_", "min_confidence_", "max_abs_", "largest_", "n_params", "n_strings", "n_tokens")
# By topic: repeated by an array or another key, or about how the numbers were made.
OWN = {
    "chat_templates": {"type", "function"},
    "data": {"edits_from_z0", "edits_from_zt", "response_lengths"},  # the handler reads "edits_from_" + name, and kept_length
    "diffusion_gemma": {"canvas_length", "sc_temperature", "sc_effect", "pads", "difference_to_unpadded", "response", "loss_diffusion",
                        "loss_ar", "canvases", "decoder_calls", "encoder_calls", "accepted_fraction"},
    "dmax_spd": {"prefilling_limit"},
    "fast_dllm": {"masks_left", "dual_cache"},
    "forward": {"task", "tensors_not_read_by_reference_loader", "in_memory_overrides", "reference_patched"},
    "gated_deltanet": {"out_absmax"},
    "llada22": {"tokens_", "rows_that_differ_from_plain_topk"},
    "loss": {"ppl", "full_gradient"},
    "peft": {"n_trainable"},  # the reference loaded its adapters for inference
    "losses": {"choose_target", "mc_num", "greedy_match"},
    "mdm_loss": {"anti_rep_pairs", "chunk_size"},
    "models": {"n_hidden", "config", "future_influence"},
    "multi_block": {"masks_left", "eos_in_final"},
    "nemotron_labs_diffusion": {"p_mask", "loss_diffusion_sum", "loss_ar_sum", "masked_tokens", "loss_tokenwise"},
    "noise": {"batch_info"},
    "objectives": {"grad_atol", "rollout_min_top2_gap"},
    "optim": {"N", "eval_rows", "gradient_accumulation_steps", "atol_param", "optimizer", "state_counters", "final_parameters"},
    "samplers": {"gumbel_uniforms_stored", "n_steps", "n_samples", "masks_left", "trace_len"},
    "sdar": {"store_calls"},
    "sdar_moe": {"store_calls"},
    "smollm2": {"greedy_text"},
    "spd": {"fast_equals_kv_tokens"},
    "tokenizers": {"roundtrip_exact", "source"},
    "wedlm": {"max_tokens", "decode_calls", "tokens_out"},
}
INSIDE = ("parameters", "params", "train")


def keys_of(entry: dict):
    for key, value in entry.items():
        yield key
        if key in INSIDE and isinstance(value, dict):
            yield from value


def main() -> int:
    here, golden = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1])
    if not golden.is_dir():
        print(f"skipped: no golden folder {golden}")
        return 77
    source = "".join(path.read_text() for path in sorted(here.rglob("*.cpp")))
    named = set(re.findall(r'"([^"\n]*)"', source))
    topics = set(re.findall(r'\{"(\w+)", run_\w+\}', (here / "handlers.cpp").read_text()))
    failures = 0
    for path in sorted(golden.rglob("cases.json")):
        topic = path.parent.name
        if topic not in topics:
            continue
        lists = [value for value in json.loads(path.read_text()).values() if isinstance(value, list)]
        used = {key for cases in lists for entry in cases if isinstance(entry, dict) for key in keys_of(entry)}
        for key in sorted(used - named - NOTES - OWN.get(topic, set())):
            if not key.startswith(NOTES_BEGIN):
                failures += 1
                print(f"FAIL {path.parent.relative_to(golden)}: no handler reads {key}, and it is no note of {topic} (keys_test.py)")
    print(f"{len(topics)} topics, {failures} keys that are not read")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

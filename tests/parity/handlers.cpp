#include "handlers.h"

namespace dllm::parity {
namespace {

struct Entry {
  std::string_view topic;
  Handler run;
};

constexpr Entry kHandlers[] = {
    {"chat_templates", run_chat_templates},
    {"cola", run_cola},
    {"data", run_data},
    {"diffusion_gemma", run_diffusion_gemma},
    {"dmax_spd", run_dmax_spd},
    {"decoding_misc", run_decoding_misc},
    {"editflow_sampler", run_editflow_sampler},
    {"fast_dllm", run_fast_dllm_loops},
    {"forward", run_forward},
    {"gated_deltanet", run_gated_deltanet},
    {"gguf_blocks", run_gguf_blocks},
    {"ldlm", run_ldlm},
    {"llada22", run_llada22},
    {"loss", run_loss},
    {"losses", run_losses},
    {"masks", run_masks},
    {"mdm_loss", run_mdm_loss},
    {"models", run_models},
    {"nemotron_labs_diffusion", run_nemotron},
    {"noise", run_noise},
    {"multi_block", run_multi_block},
    {"objectives", run_objectives},
    {"optim", run_optim},
    {"peft", run_peft},
    {"quant4", run_quant4},
    {"repr_align", run_repr_align},
    {"rng", run_rng},
    {"samplers", run_samplers},
    {"schedules", run_schedules},
    {"sdar", run_sdar},
    {"sdar_moe", run_sdar},
    {"smollm2", run_smollm2},
    {"spd", run_spd},
    {"tokenizers", run_tokenizers},
    {"trajectories", run_trajectories},
    {"vfm", run_vfm},
    {"wedlm", run_wedlm},
};

} // namespace

Handler find_handler(std::string_view topic) {
  for (const Entry& entry : kHandlers) {
    if (entry.topic == topic) return entry.run;
  }
  return nullptr;
}

} // namespace dllm::parity

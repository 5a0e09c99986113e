#pragma once
// One handler per topic, chosen by the folder's name: handlers/<topic>.cpp.

#include <string_view>

namespace dllm::parity {

class Topic;
using Handler = void (*)(Topic&);

void run_chat_templates(Topic& topic);
void run_cola(Topic& topic);
void run_data(Topic& topic);
void run_diffusion_gemma(Topic& topic);
void run_dmax_spd(Topic& topic);
void run_decoding_misc(Topic& topic);
void run_editflow_sampler(Topic& topic);
void run_fast_dllm_loops(Topic& topic);
void run_forward(Topic& topic);
void run_gated_deltanet(Topic& topic);
void run_gguf_blocks(Topic& topic);
void run_ldlm(Topic& topic);
void run_llada22(Topic& topic);
void run_loss(Topic& topic);
void run_losses(Topic& topic);
void run_masks(Topic& topic);
void run_mdm_loss(Topic& topic);
void run_models(Topic& topic);
void run_multi_block(Topic& topic);
void run_nemotron(Topic& topic);
void run_noise(Topic& topic);
void run_objectives(Topic& topic);
void run_optim(Topic& topic);
void run_peft(Topic& topic);
void run_quant4(Topic& topic);
void run_repr_align(Topic& topic);
void run_rng(Topic& topic);
void run_samplers(Topic& topic);
void run_schedules(Topic& topic);
void run_sdar(Topic& topic);
void run_smollm2(Topic& topic);
void run_spd(Topic& topic);
void run_tokenizers(Topic& topic);
void run_trajectories(Topic& topic);
void run_vfm(Topic& topic);
void run_wedlm(Topic& topic);

// Null for an unknown topic.
Handler find_handler(std::string_view topic);

} // namespace dllm::parity

#include "ldlm_model.h"

#include "base/error.h"
#include "base/files.h"
#include "noise/objective.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

struct NameRow {
  const char* ours;
  const char* theirs;
  int64_t part = 0, parts = 1;
  bool of_columns = false;
};

// Names of a layer, after "layers.<n>.".
constexpr NameRow kPerceiver[] = {
    {"attention_norm.", "0.norm."},
    {"self_cross_attention.q.", "0.fn.to_qkv.", 0, 3},
    {"self_cross_attention.k.", "0.fn.to_qkv.", 1, 3},
    {"self_cross_attention.v.", "0.fn.to_qkv.", 2, 3},
    {"self_cross_attention.out.", "0.fn.to_out."},
    {"cross_norm.", "1.norm."},
    {"self_cross_attention.cross_q.", "1.fn.to_q."},
    {"self_cross_attention.cross_k.", "1.fn.to_k."},
    {"self_cross_attention.cross_v.", "1.fn.to_v."},
    {"self_cross_attention.cross_out.", "1.fn.to_out."},
    {"mlp_norm.", "2.norm."},
    {"mlp.up.", "2.fn.net.0."},
    {"mlp.down.", "2.fn.net.2."},
};
constexpr NameRow kReaderLayer[] = {
    {"attention_norm.", "norm1."},
    {"self_cross_attention.q.", "self_attn.in_proj_", 0, 3},
    {"self_cross_attention.k.", "self_attn.in_proj_", 1, 3},
    {"self_cross_attention.v.", "self_attn.in_proj_", 2, 3},
    {"self_cross_attention.out.", "self_attn.out_proj."},
    {"cross_norm.", "norm2."},
    {"self_cross_attention.cross_q.", "multihead_attn.in_proj_", 0, 3},
    {"self_cross_attention.cross_k.", "multihead_attn.in_proj_", 1, 3},
    {"self_cross_attention.cross_v.", "multihead_attn.in_proj_", 2, 3},
    {"self_cross_attention.cross_out.", "multihead_attn.out_proj."},
    {"mlp_norm.", "norm3."},
    {"mlp.up.", "linear1."},
    {"mlp.down.", "linear2."},
};
constexpr NameRow kDenoiserLayer[] = {
    {"attention_norm.", "0."},
    {"attention.q.", "1.to_qkv.", 0, 3},
    {"attention.k.", "1.to_qkv.", 1, 3},
    {"attention.v.", "1.to_qkv.", 2, 3},
    {"attention.out.", "1.to_out."},
    {"mlp_norm.", "2."},
    {"mlp.up.", "3.net.0."},
    {"mlp.down.", "3.net.2."},
};
// Names outside of layers.
constexpr NameRow kWhole[] = {
    {"encoder/latents", "autoencoder.latent_encoder.latents"},
    {"decoder/latents", "autoencoder.latent_decoder.latents"},
    {"reader/norm.", "autoencoder.token_decoder.norm."},
    {"reader/heads.lm.", "autoencoder.lm_head."},
    {"denoiser/inputs.noised.bias", "diffusion_head.proj_in.bias"},
    {"denoiser/inputs.noised.weight", "diffusion_head.proj_in.weight", 0, 2, true},
    {"denoiser/inputs.previous.weight", "diffusion_head.proj_in.weight", 1, 2, true},
    {"denoiser/time.in.", "diffusion_head.time_mlp.0."},
    {"denoiser/time.out.", "diffusion_head.time_mlp.2."},
    {"denoiser/norm.", "diffusion_head.out_norm."},
};
struct LayerNames {
  const char *ours, *theirs;
  std::span<const NameRow> rows;
};
const LayerNames kLayers[] = {
    {"encoder/layers.", "autoencoder.latent_encoder.layers.", kPerceiver},
    {"decoder/layers.", "autoencoder.latent_decoder.layers.", kPerceiver},
    {"reader/layers.", "autoencoder.token_decoder.layers.", kReaderLayer},
    {"denoiser/layers.", "diffusion_head.blocks.", kDenoiserLayer},
};

// Returns the place of the row whose name begins `rest`.
ReferencePart find_row(std::span<const NameRow> rows, const std::string& rest,
                       const std::string& before, const std::string& name) {
  const auto row =
      std::ranges::find_if(rows, [&](const NameRow& r) { return rest.starts_with(r.ours); });
  if (row == rows.end()) fail(Code::not_found, "the reference has no tensor {}", name);
  return {before + row->theirs + rest.substr(std::string(row->ours).size()), row->part, row->parts,
          row->of_columns};
}

} // namespace

ReferencePart reference_part(const std::string& name) {
  for (const LayerNames& layer : kLayers) {
    const std::string start = layer.ours;
    if (!name.starts_with(start)) continue;
    const size_t dot = name.find('.', start.size());
    return find_row(layer.rows, name.substr(dot + 1),
                    layer.theirs + name.substr(start.size(), dot + 1 - start.size()), name);
  }
  return find_row(kWhole, name, "", name);
}

Tensor part_of(const ReferencePart& where, const Tensor& whole, const Shape& shape) {
  if (!where.of_columns) {
    const Tensor rows = whole.shape().rank() == shape.rank() ? whole : whole.reshaped(shape);
    const int64_t count = rows.shape()[0] / where.parts;
    return rows.rows(where.part * count, (where.part + 1) * count).clone();
  }
  Tensor made(DType::f32, shape);
  const int64_t width = shape[1], stride = width * where.parts;
  for (int64_t i = 0; i < made.count(); ++i) {
    made.mutable_as<float>()[static_cast<size_t>(i)] =
        whole.as<float>()[static_cast<size_t>(i / width * stride + where.part * width + i % width)];
  }
  return made;
}

std::shared_ptr<model::Model> ldlm_model(Case& c, const Json& entry) {
  const std::string folder = c.topic().model_folder(entry.at("model"));
  const Json sizes = Json::parse(read_text(folder + "/config.json"));
  const int64_t width = sizes.at("dim");
  const Json base = {{"model_type", "qwen3"},
                     {"vocab_size", sizes.at("vocab_size")},
                     {"hidden_size", width},
                     {"num_hidden_layers", 1},
                     {"num_attention_heads", 1},
                     {"num_key_value_heads", 1},
                     {"head_dim", width},
                     {"intermediate_size", width},
                     {"max_position_embeddings", 64},
                     {"tie_word_embeddings", true}};
  const auto model = model::new_model(c.topic().engine(), base, Options(model::model_schema()));
  Options options(noise::objective_schema("ldlm"));
  options.set_json({{"compat", "open-dllm"},
                    {"latents", sizes.at("seq_len")},
                    {"depth", sizes.at("depth")},
                    {"reader_depth", sizes.at("decoder_num_layers")},
                    {"denoiser_depth", sizes.at("diffusion_head_depth")},
                    {"latent_heads", sizes.at("perceiver_heads")}});
  const std::string file = folder + "/model.safetensors";
  const ckpt::SafetensorsFile weights(map_file(file), file);
  for (auto [name, config] :
       noise::make_objective("ldlm", nullptr, options)->new_parts(model->config())) {
    if (name == "reader") config["num_attention_heads"] = sizes.at("decoder_heads");
    if (name == "denoiser") config["num_attention_heads"] = sizes.at("diffusion_head_heads");
    model::add_new_network(*model, name, config, 0);
    for (const std::string& tensor : model->params().names(name)) {
      const ReferencePart where = reference_part(tensor);
      const Shape shape = model->params().read(tensor).shape();
      model->params().write(tensor, part_of(where, weights.tensor(where.name), shape));
    }
  }
  return model;
}

} // namespace dllm::parity

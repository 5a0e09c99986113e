// castlehill/cola: latent diffusion as a term of a loss. Two encoders, a denoiser and the loss over
// given states, times and noise, with the norms of all gradients. The weights of the reference are
// written into the parts of a model.

#include "bare_graph.h"
#include "base/files.h"
#include "ckpt/safetensors/safetensors.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "handlers.h"
#include "model/model.h"
#include "model/network/sinusoid.h"
#include "noise/terms/cola_head.h"
#include "runner.h"
#include "runtime/programs.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

namespace dllm::parity {
namespace {

// The tensors of a part that hold the rows of one tensor of the reference, in order.
using ColaNames = std::map<std::string, std::vector<std::string>>;

void add_encoder_names(ColaNames& names, const std::string& from, const std::string& part,
                       int64_t layers) {
  names[from + ".latents"] = {part + "/latents"};
  for (int64_t i = 0; i < layers; ++i) {
    const std::string theirs = from + ".layers." + std::to_string(i) + ".",
                      ours = part + "/layers." + std::to_string(i) + ".",
                      mixer = ours + "self_cross_attention.";
    const char* norms[] = {"attention_norm", "cross_norm", "mlp_norm"};
    for (int half = 0; half < 3; ++half) {
      for (const char* kind : {".weight", ".bias"})
        names[theirs + std::to_string(half) + ".norm" + kind] = {ours + norms[half] + kind};
    }
    names[theirs + "0.fn.to_qkv.weight"] = {mixer + "q.weight", mixer + "k.weight",
                                            mixer + "v.weight"};
    for (const char* one : {"q", "k", "v"})
      names[theirs + "1.fn.to_" + one + ".weight"] = {mixer + "cross_" + one + ".weight"};
    for (const char* kind : {".weight", ".bias"}) {
      names[theirs + "0.fn.to_out" + kind] = {mixer + "out" + kind};
      names[theirs + "1.fn.to_out" + kind] = {mixer + "cross_out" + kind};
      names[theirs + "2.fn.net.0" + kind] = {ours + "mlp.up" + kind};
      names[theirs + "2.fn.net.2" + kind] = {ours + "mlp.down" + kind};
    }
  }
}

void add_denoiser_names(ColaNames& names, int64_t layers) {
  const std::string part = std::string(noise::kColaDenoiser) + "/";
  for (const char* kind : {".weight", ".bias"}) {
    names[std::string("dit.time_embed.proj_in") + kind] = {part + "time.in" + kind};
    names[std::string("dit.time_embed.proj_hid") + kind] = {part + "time.mid" + kind};
    names[std::string("dit.time_embed.proj_out") + kind] = {part + "time.out" + kind};
    names[std::string("dit.out_ada.out_in.1") + kind] = {part + "norm.in" + kind};
    names[std::string("dit.proj_out") + kind] = {part + "heads.latents" + kind};
    names[std::string("text_vae.fusion") + kind] = {part + "inputs.fusion" + kind};
  }
  names["token_shift_proj.weight"] = {part + "heads.shift.weight"};
  for (int64_t i = 0; i < layers; ++i) {
    const std::string theirs = "dit.blocks." + std::to_string(i) + ".",
                      ours = part + "layers." + std::to_string(i) + ".",
                      mixer = ours + "attention.", network = ours + "mlp.";
    names[theirs + "msa.to_qkv.weight"] = {mixer + "q.weight", mixer + "k.weight",
                                           mixer + "v.weight"};
    for (const char* kind : {".weight", ".bias"}) {
      names[theirs + "msa.to_out" + kind] = {mixer + "out" + kind};
      names[theirs + "mlp.proj_in" + kind] = {network + "up" + kind};
      names[theirs + "mlp.proj_out" + kind] = {network + "down" + kind};
      names[theirs + "ada.msa_in.1" + kind] = {mixer + "attention_norm.in" + kind};
      names[theirs + "ada.msa_out.1" + kind] = {mixer + "attention_norm.gate" + kind};
      names[theirs + "ada.mlp_in.1" + kind] = {network + "mlp_norm.in" + kind};
      names[theirs + "ada.mlp_out.1" + kind] = {network + "mlp_norm.gate" + kind};
    }
  }
}

// A model with the three networks of the reference, and a base that nothing reads.
struct ColaModel {
  noise::ColaSizes sizes;
  noise::ColaHead head;
  ColaNames names;
  std::shared_ptr<model::Model> model;
};

std::shared_ptr<model::Model> cola_base(const std::shared_ptr<graph::Engine>& engine,
                                        int64_t hidden) {
  return model::new_model(engine,
                          {{"model_type", "qwen3"},
                           {"vocab_size", 8},
                           {"hidden_size", hidden},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 1},
                           {"num_key_value_heads", 1},
                           {"head_dim", 4},
                           {"intermediate_size", 4},
                           {"max_position_embeddings", 64},
                           {"rms_norm_eps", 1e-6},
                           {"rope_theta", 10000.0},
                           {"tie_word_embeddings", true}},
                          Options(model::model_schema()));
}

// The reference's rows of an adaptive norm are the shift, then the scale.
Tensor halves_swapped(const Tensor& rows) {
  Tensor made = rows.clone();
  const auto values = made.mutable_as<float>();
  std::rotate(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
              values.end());
  return made;
}

ColaModel load_cola(Topic& topic) {
  const std::string folder = topic.model_folder(topic.cases().at("model"));
  const Json config = parse_json(read_text(folder + "/config.json"), "config.json");
  const auto number = [&](const char* key) { return config.at(key).get<int64_t>(); };
  ColaModel made;
  made.sizes.hidden = number("dim");
  made.sizes.global = number("num_global");
  made.sizes.local = number("num_local");
  made.sizes.encoder_layers = number("encoder_depth");
  made.sizes.layers = number("diffusion_depth");
  made.sizes.heads = number("heads");
  made.sizes.encoder_feedforward = number("encoder_ff_mult") * made.sizes.hidden;
  made.sizes.feedforward = number("dit_expand_ratio") * made.sizes.hidden;
  made.sizes.level_size = number("sinusoidal_dim");
  made.head.block = number("block_size");
  made.model = cola_base(topic.engine(), made.sizes.hidden);
  for (const auto& [name, tower] : noise::cola_towers(made.sizes))
    model::add_new_network(*made.model, name, tower, 1);
  add_encoder_names(made.names, "text_vae.global_perceiver", noise::kColaGlobal,
                    made.sizes.encoder_layers);
  add_encoder_names(made.names, "text_vae.local_perceiver", noise::kColaLocal,
                    made.sizes.encoder_layers);
  add_denoiser_names(made.names, made.sizes.layers);
  const std::string file = folder + "/model.safetensors";
  const ckpt::SafetensorsFile weights(open_content(file), file);
  for (const auto& [theirs, ours] : made.names) {
    const Tensor all = weights.tensor(theirs);
    const int64_t rows = all.shape()[0] / static_cast<int64_t>(ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const auto begin = static_cast<int64_t>(i) * rows;
      const bool latents = theirs.ends_with(".latents"); // (1, n, hidden)
      if (theirs.find("_in.1.") != std::string::npos) {
        made.model->params().write(ours[i], halves_swapped(all));
        continue;
      }
      made.model->params().write(ours[i], latents ? all.row(0) : all.rows(begin, begin + rows));
    }
  }
  return made;
}

noise::ColaHead head_of(const ColaModel& model, const Json& entry) {
  noise::ColaHead head = model.head;
  const std::string variant = entry.at("variant");
  if (variant == "card") head.kind = noise::ColaKind::card;
  if (variant == "fast_block") head.kind = noise::ColaKind::fast_block;
  head.predicts_clean = entry.at("prediction") == "x0";
  return head;
}

// Returns f32(latents): the weights of the latents in the loss.
Tensor weights_of_latents(Case& c, const ColaModel& model, const Json& entry) {
  const int64_t count = model.sizes.latents();
  int64_t first = 0;
  if (!entry.at("lambda_tail").is_null()) {
    double mean = 0;
    for (const float t : c.array("t").as<float>()) mean += t;
    mean /= static_cast<double>(c.array("t").count());
    first = noise::cola_tail_start(count, mean, entry.at("lambda_tail"));
    c.equal(first, entry.at("tail_start").get<int64_t>(), "tail_start");
  }
  Tensor weights(DType::f32, {1, count});
  for (int64_t i = first; i < count; ++i)
    weights.mutable_as<float>()[static_cast<size_t>(i)] = 1.0f / static_cast<float>(count - first);
  return weights;
}

Tensor mask_of(int64_t global, int64_t local, const noise::ColaHead& head) {
  const std::vector<int32_t> limits = noise::cola_limits(global, local, head);
  const int64_t count = global + local;
  Tensor mask(DType::i32, {count, count});
  for (int64_t i = 0; i < count * count; ++i) {
    mask.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        i % count < limits[static_cast<size_t>(i / count)] ? 1 : 0;
  }
  return mask;
}

struct ColaResult {
  std::map<std::string, Tensor> values;
  std::map<std::string, double> squares; // of the gradients, by our name
};

ColaResult run_cola_head(const ColaModel& model, const noise::ColaHead& head, const Batch& feed) {
  const auto graph = std::make_shared<graph::Graph>("cola");
  const model::PartList parts =
      model.model->reading({noise::kColaGlobal, noise::kColaLocal, noise::kColaDenoiser});
  model::Builder builder(*graph, *model.model, parts);
  const std::vector<graph::Value> parameters = builder.parameters();
  const auto arrays = runtime::feed_inputs(*graph, feed);
  noise::ColaRows rows;
  rows.states = arrays.at("h");
  rows.times = arrays.at("t");
  rows.noise = arrays.at("noise");
  const noise::ColaLatents made = noise::cola_latents(builder, head, rows);
  const graph::Value loss =
      graph::mean(graph::sum(graph::multiply(made.errors, arrays.at("weights")), {1}), {0});
  const std::vector<std::pair<const char*, graph::Value>> values = {{"z_global", made.global},
                                                                    {"z_local", made.local},
                                                                    {"z_t", made.noisy},
                                                                    {"pred", made.prediction},
                                                                    {"loss", loss}};
  for (const auto& [name, value] : values) graph->output(name, value);
  const std::vector<graph::Value> gradients = graph::gradients(loss, parameters);
  for (size_t i = 0; i < gradients.size(); ++i)
    graph->output("gradient" + std::to_string(i), gradients[i]);
  runtime::Arguments arguments(model.model->engine().compile(graph::simplify(*graph)));
  arguments.share_parameters(model.model->params().snapshot(parts));
  arguments.upload(model.model->engine(), feed);
  const auto outputs = arguments.run(nullptr);
  ColaResult result;
  for (size_t i = 0; i < values.size(); ++i)
    result.values[values[i].first] = outputs[i]->read().clone();
  const std::vector<size_t> indices = builder.indices();
  for (size_t i = 0; i < indices.size(); ++i) {
    const Tensor gradient = outputs[values.size() + i]->read().clone();
    for (const auto& [name, tensor] : model.model->params().to_logical(indices[i], gradient)) {
      for (const float value : tensor.as<float>())
        result.squares[name] += static_cast<double>(value) * value;
    }
  }
  return result;
}

void run_cola_case(Case& c, const ColaModel& model, const Json& entry) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  const noise::ColaHead head = head_of(model, entry);
  c.equal(mask_of(model.sizes.global, model.sizes.local, head), c.array("mask"), "mask");
  Batch feed;
  for (const char* name : {"h", "t", "noise"}) feed.set(name, c.array(name));
  feed.set("weights", weights_of_latents(c, model, entry));
  const ColaResult got = run_cola_head(model, head, feed);
  for (const char* name : {"z_global", "z_local", "z_t", "pred"})
    c.close(tolerance, got.values.at(name), c.array(name), name);
  c.close(tolerance, got.values.at("loss").as<float>()[0], entry.at("loss").get<double>(), "loss");
  const Json& norms = entry.at("gradient_norms");
  for (const auto& [name, norm] : norms.items()) {
    double squares = 0;
    for (const std::string& own : model.names.at(name)) squares += got.squares.at(own);
    c.close(tolerance, std::sqrt(squares), norm.get<double>(), "gradient of " + name);
  }
  // Every tensor of the model has a gradient, except the shift of a kind that has none.
  const bool shifts = head.kind == noise::ColaKind::fast_block;
  c.equal(static_cast<int64_t>(norms.size()),
          static_cast<int64_t>(model.names.size()) - (shifts ? 0 : 1), "gradients");
}

// mask_<global>_<local>_<block>
void run_cola_mask(Case& c, const std::string& name) {
  int64_t numbers[3] = {};
  const char *at = name.data() + std::string("mask_").size(), *end = name.data() + name.size();
  for (int64_t& number : numbers) at = std::from_chars(at, end, number).ptr + 1;
  noise::ColaHead head;
  head.block = numbers[2];
  c.set_prefix("");
  c.equal(mask_of(numbers[0], numbers[1], head), c.topic().array(name), name);
}

void run_cola_sinusoid(Case& c) {
  const Tensor times = c.array("t");
  const int64_t count = times.count();
  for (const std::string& name : c.names("dim")) {
    const Tensor& wanted = c.array(name);
    BareGraph bare("sinusoid");
    const graph::Value t = bare.input("t", times);
    bare.graph->output("made", model::sinusoid(graph::reshape(t, {count, 1}), wanted.shape()[1]));
    c.close({1e-6, 1e-6}, bare.run(*c.topic().engine())[0], wanted, name);
  }
}

} // namespace

void run_cola(Topic& topic) {
  const ColaModel model = load_cola(topic);
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_cola_case(c, model, entry); });
  for (const std::string& name : topic.array_names()) {
    if (name.starts_with("mask_")) topic.run(name, [&](Case& c) { run_cola_mask(c, name); });
  }
  topic.run(std::string("sinusoid"), [](Case& c) { run_cola_sinusoid(c); });
}

} // namespace dllm::parity

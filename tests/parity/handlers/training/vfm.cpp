// castlehill/vfm: the noise adapter in its training step (losses, logits, gradients), its passes of
// generation, its spherical form, and the mask fillers small and unet. The adapter and the fillers
// become networks of the frozen language model.

#include "base/files.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "handlers.h"
#include "model/network/builder.h"
#include "model/network/token_batch.h"
#include "noise/loss/evaluate.h"
#include "noise/objective.h"
#include "runner.h"
#include "runtime/programs.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::parity {
namespace {

using graph::Value;

// A tensor of a reference, and the parameters of ours that hold its rows one after the other.
struct Stored {
  std::string reference;
  std::vector<std::string> own;
};

// The files of one reference network, and where they belong.
class Reference {
public:
  Reference(Topic& topic, const std::string& name)
      : folder_(topic.model_folder(name)), file_(map_file(folder_ + "/model.safetensors"), name),
        config_(parse_json(read_text(folder_ + "/config.json"), "config.json")) {}

  const Json& config() const { return config_; }
  Tensor tensor(const std::string& name) { return file_.tensor(name).to(DType::f32); }

  // A linear with its bias; several parts are stacked in one tensor.
  void linear(const std::string& name, std::vector<std::string> parts, const char* dot = ".") {
    for (const char* word : {"weight", "bias"}) {
      Stored stored{name + dot + word, {}};
      for (const std::string& part : parts) stored.own.push_back(part + "." + word);
      stored_.push_back(stored);
    }
  }
  // A layer of torch.nn.TransformerEncoder or, with `cross`, of TransformerDecoder.
  void layer(const std::string& name, const std::string& part, int64_t number, bool cross) {
    const std::string own = part + "/layers." + std::to_string(number) + ".";
    const std::string mixer = own + (cross ? "self_cross_attention." : "attention.");
    const auto three = [&](const char* prefix) {
      return std::vector<std::string>{mixer + prefix + "q", mixer + prefix + "k",
                                      mixer + prefix + "v"};
    };
    linear(name + ".self_attn.in_proj", three(""), "_");
    linear(name + ".self_attn.out_proj", {mixer + "out"});
    linear(name + ".linear1", {own + "mlp.up"});
    linear(name + ".linear2", {own + "mlp.down"});
    linear(name + ".norm1", {own + "attention_norm"});
    linear(name + (cross ? ".norm3" : ".norm2"), {own + "mlp_norm"});
    if (!cross) return;
    linear(name + ".norm2", {own + "cross_norm"});
    linear(name + ".multihead_attn.in_proj", three("cross_"), "_");
    linear(name + ".multihead_attn.out_proj", {mixer + "cross_out"});
  }
  void single(const std::string& name, const std::string& own) { stored_.push_back({name, {own}}); }

  const std::vector<Stored>& stored() const { return stored_; }
  void write_to(model::Model& model) {
    for (const Stored& stored : stored_) {
      const Tensor whole = tensor(stored.reference);
      const auto parts = static_cast<int64_t>(stored.own.size());
      const int64_t rows = whole.shape()[0] / parts;
      for (int64_t i = 0; i < parts; ++i)
        model.params().write(stored.own[static_cast<size_t>(i)],
                             whole.rows(i * rows, (i + 1) * rows));
    }
  }

private:
  std::string folder_;
  ckpt::SafetensorsFile file_;
  Json config_;
  std::vector<Stored> stored_;
};

Json tower_of(int64_t hidden, int64_t layers, int64_t heads, int64_t width) {
  return {{"model_type", "dllm_tower"},  {"hidden_size", hidden},
          {"num_hidden_layers", layers}, {"num_attention_heads", heads},
          {"intermediate_size", width},  {"positions", "none"},
          {"attention_bias", true}};
}

Json head_of(int64_t rows) {
  return {{"rows", rows}, {"bias", true}};
}

// Returns the language model with a mask token that no row of the case has. The vectors of a filler
// replace its embedding.
std::shared_ptr<model::Model> copy_of(Case& c, const std::string& name) {
  const auto model = model::share_model(*c.topic().model(name));
  std::set<int32_t> used;
  for (const std::string& array : c.topic().array_names()) {
    if (!array.ends_with("_ids") && !array.ends_with("rows")) continue;
    const Tensor numbers = c.topic().array(array).to(DType::i32);
    used.insert(numbers.as<int32_t>().begin(), numbers.as<int32_t>().end());
  }
  int32_t id = static_cast<int32_t>(model->config().vocab_size) - 1;
  while (used.contains(id)) --id;
  model->set_mask_token(id);
  return model;
}

// The language model with the adapter as its filler.
struct Adapted {
  std::shared_ptr<model::Model> model;
  Reference reference;
};

Adapted adapted(Case& c, const Json& entry, double length = 0) {
  Adapted made{copy_of(c, entry.at("llm")), Reference(c.topic(), entry.at("adapter"))};
  const Json& config = made.reference.config();
  const int64_t hidden = config.at("hidden_size"), layers = config.at("num_layers");
  const Json tower =
      tower_of(hidden, layers, config.at("num_heads"), config.at("intermediate_size"));
  model::add_new_network(*made.model, "filler_prompt", tower, 0);
  Json writer = tower;
  writer["positions"] = "learned";
  writer["max_position_embeddings"] = config.at("max_completion_len");
  writer["context_size"] = hidden;
  writer["mixer"] = "self_cross_attention";
  writer["dllm"]["heads"] = {{"mean", head_of(hidden)}, {"log_sigma", head_of(hidden)}};
  model::add_new_network(*made.model, "filler", writer, 0);
  model::FillerConfig filler;
  filler.kind = model::FillerKind::adapter;
  filler.is_gaussian = true;
  filler.reads_prompt = true;
  filler.length = length;
  made.model->set_filler(filler);
  Reference& names = made.reference;
  for (int64_t i = 0; i < layers; ++i) {
    names.layer("prompt_encoder.layers." + std::to_string(i), "filler_prompt", i, false);
    names.layer("completion_decoder.layers." + std::to_string(i), "filler", i, true);
  }
  names.linear("prompt_norm", {"filler_prompt/norm"});
  names.linear("completion_norm", {"filler/norm"});
  names.linear("mu_head", {"filler/heads.mean"});
  names.linear("log_sigma_head", {"filler/heads.log_sigma"});
  names.single("completion_pos_embed.weight", "filler/positions");
  names.write_to(*made.model);
  return made;
}

// The two halves of a row, side by side.
Tensor joined(const Tensor& left, const Tensor& right) {
  const int64_t rows = left.shape()[0], a = left.shape()[1], b = right.shape()[1];
  Tensor made(DType::i32, {rows, a + b});
  const Tensor from_left = left.to(DType::i32), from_right = right.to(DType::i32);
  for (int64_t r = 0; r < rows; ++r) {
    const auto out = made.mutable_as<int32_t>().subspan(static_cast<size_t>(r * (a + b)));
    std::ranges::copy(from_left.rows(r, r + 1).as<int32_t>(), out.begin());
    std::ranges::copy(from_right.rows(r, r + 1).as<int32_t>(), out.begin() + a);
  }
  return made;
}

// Runs the model on arrays and returns the outputs that `build` makes.
std::vector<Tensor> run_graph(
    const model::Model& model, const Batch& feed,
    const std::function<std::vector<Value>(model::Builder&, const model::ForwardInputs&)>& build) {
  const auto graph = std::make_shared<graph::Graph>("vfm");
  model::Builder builder(*graph, model);
  const auto arrays = runtime::feed_inputs(*graph, feed);
  const model::ForwardInputs inputs =
      model::forward_inputs(arrays, model::AttentionKind::bidirectional, false);
  int number = 0;
  for (const Value value : build(builder, inputs))
    graph->output("output" + std::to_string(number++), value);
  const auto program = model.engine().compile(graph::simplify(*graph));
  runtime::Arguments arguments(program);
  arguments.share_parameters(model.params().snapshot(model.reading(), nullptr, nullptr));
  arguments.upload(model.engine(), feed);
  std::vector<Tensor> results;
  for (const graph::BufferRef& output : arguments.run(nullptr))
    results.push_back(output->read().clone());
  return results;
}

// Positions `from` and later of every row.
Tensor later(const Tensor& x, int64_t from) {
  const Shape& shape = x.shape();
  const int64_t count = shape[1] - from;
  Tensor made(DType::f32, {shape[0], count, shape[2]});
  for (int64_t r = 0; r < shape[0]; ++r) {
    const auto row = x.rows(r, r + 1).as<float>().subspan(static_cast<size_t>(from * shape[2]));
    std::ranges::copy(row, made.mutable_as<float>().begin() + r * count * shape[2]);
  }
  return made;
}

// --- training steps ---

noise::ObjectiveRef objective_of(const Json& entry, bool refines) {
  const Json& s = entry.at("settings");
  Options options(noise::objective_schema("vfm"));
  options.set_json(Json{{"tau", s.at("tau")},
                        {"sigma", s.at("sigma")},
                        {"kl_weight", s.at("kl_weight")},
                        {"mu_reg", s.at("mu_reg_lambda")},
                        {"embedding_length", entry.at("embedding_norm")},
                        {"shift", s.at("ar_shift").get<bool>() ? 1 : 0},
                        {"refinement", refines}});
  return noise::make_objective("vfm", nullptr, options);
}

Batch raw_rows(Case& c, const Tensor& present) {
  const Tensor prompt = c.array("prompt_ids"), completion = c.array("completion_ids");
  const int64_t rows = prompt.shape()[0], start = prompt.shape()[1], count = completion.shape()[1];
  Batch raw;
  raw.set("ids", joined(prompt, completion));
  raw.set("keys", present.to(DType::u8));
  raw.set("prompt_length",
          Tensor::from(Shape{rows}, std::vector<int32_t>(static_cast<size_t>(rows),
                                                         static_cast<int32_t>(start))));
  if (c.has("committed")) {
    Tensor draws = joined(Tensor(DType::i32, {rows, start}), c.array("committed")).to(DType::f32);
    for (float& draw : draws.mutable_as<float>()) draw = draw > 0 ? 0.25f : 0.75f;
    raw.set("u_mask", draws);
    raw.set("u_t", Tensor::from(Shape{rows}, std::vector<float>(static_cast<size_t>(rows), 0.5f)));
  }
  if (c.has("eps")) {
    const Tensor& eps = c.array("eps");
    Tensor noise(DType::f32, {rows, start + count, eps.shape()[2]});
    const int64_t own = count * eps.shape()[2], all = (start + count) * eps.shape()[2];
    for (int64_t r = 0; r < rows; ++r)
      std::ranges::copy(eps.rows(r, r + 1).as<float>(),
                        noise.mutable_as<float>().begin() + (r + 1) * all - own);
    raw.set(noise::kFillerNoise, noise);
  }
  return raw;
}

// The reference leaves padding out, and divides by the tokens of the batch, not by those of a row.
void weigh_as_reference(Batch& prepared, const Tensor& present, const Json& settings,
                        int64_t start) {
  Tensor targets = prepared.at("targets").clone(), weights = prepared.at("weights").clone();
  const auto target = targets.mutable_as<int32_t>();
  const int64_t seq = targets.shape()[1];
  double counts[2] = {0, 0};
  const auto kind = [&](size_t i) { return static_cast<int64_t>(i) % seq < start ? 1 : 0; };
  for (size_t i = 0; i < target.size(); ++i) {
    if (present.as<int32_t>()[i] == 0) target[i] = -1;
    if (target[i] >= 0) ++counts[kind(i)];
  }
  for (size_t i = 0; i < target.size(); ++i) {
    const double deviation = settings.at(kind(i) == 1 ? "sigma" : "tau");
    const double rows = static_cast<double>(targets.shape()[0]);
    weights.mutable_as<float>()[i] =
        target[i] < 0 ? 0.0f
                      : static_cast<float>(rows / (2 * deviation * deviation * counts[kind(i)]));
  }
  prepared.set("targets", targets);
  prepared.set("weights", weights);
}

double part_of(const std::vector<Tensor>& numbers, const std::vector<std::string>& names,
               const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return 0;
  const auto at = static_cast<size_t>(found - names.begin());
  return static_cast<double>(numbers[2 * at].as<float>()[0]) /
         static_cast<double>(numbers[2 * at + 1].as<float>()[0]);
}

void check_parts(Case& c, const Json& entry, const model::Model& model,
                 const noise::Objective& objective, const Batch& prepared) {
  const Batch feed = objective.feed(prepared, model.config());
  const auto graph = std::make_shared<graph::Graph>("parts");
  model::Builder builder(*graph, model);
  const noise::Loss loss = objective.loss(builder, runtime::feed_inputs(*graph, feed));
  std::vector<std::string> names;
  for (const noise::Loss::Part& part : loss.parts) {
    names.push_back(part.name);
    graph->output(part.name + ".sum", part.sum);
    graph->output(part.name + ".count", part.count);
  }
  const auto program = model.engine().compile(graph::simplify(*graph));
  runtime::Arguments arguments(program);
  arguments.share_parameters(model.params().snapshot(model.reading(), nullptr, nullptr));
  arguments.upload(model.engine(), feed);
  std::vector<Tensor> numbers;
  for (const graph::BufferRef& output : arguments.run(nullptr))
    numbers.push_back(output->read().clone());
  const Json& losses = entry.at("losses");
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 1e-4});
  const std::pair<const char*, const char*> parts[] = {
      {"data", "data"}, {"obs", "observed"}, {"kl", "kl"}, {"reg", "regularization"}};
  for (const auto& [reference, own] : parts)
    c.close(tolerance, part_of(numbers, names, own), losses.at(reference), reference);
}

double norm_of(const noise::LossGradients& got, const std::vector<std::string>& names) {
  double squares = 0;
  for (const auto& [name, gradient] : got.gradients) {
    if (std::ranges::find(names, name) == names.end()) continue;
    for (const float x : gradient.as<float>()) squares += static_cast<double>(x) * x;
  }
  return std::sqrt(squares);
}

void check_step(Case& c, const Json& entry, Adapted& own, const noise::Objective& objective,
                const Batch& prepared) {
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 1e-4});
  const noise::LossGradients got = noise::loss_gradients(*own.model, objective, prepared);
  const double total = got.loss.sum / got.loss.normalizer;
  c.close(tolerance, total, entry.at("losses").at("total"), "total");
  c.close(tolerance, total, c.array("total").as<float>()[0], "total of the arrays");
  const Json& norms = entry.at("gradient_norms");
  for (const Stored& stored : own.reference.stored()) {
    if (norms.contains(stored.reference))
      c.close(tolerance, norm_of(got, stored.own), norms.at(stored.reference), stored.reference);
  }
  for (const std::string& name : c.names("grad.")) {
    const auto stored =
        std::ranges::find(own.reference.stored(), name.substr(5), &Stored::reference);
    c.check(stored != own.reference.stored().end(), "a gradient of a known tensor");
    for (const auto& [logical, gradient] : got.gradients) {
      if (logical == stored->own.front())
        c.close(tolerance, gradient.reshaped(c.array(name).shape()), c.array(name), name);
    }
  }
}

void run_step(Case& c, const Json& entry) {
  Adapted own = adapted(c, entry);
  const bool variational = entry.at("settings").at("variational");
  const int64_t start = c.array("prompt_ids").shape()[1];
  const Tensor present = joined(c.array("prompt_mask"), c.array("completion_mask"));
  const noise::ObjectiveRef objective = objective_of(entry, c.has("committed"));
  Batch prepared = objective->prepare(raw_rows(c, present), 0, 0,
                                      noise::prepare_context(*objective, own.model->config()));
  prepared.remove(noise::kFillerKeys);
  weigh_as_reference(prepared, present, entry.at("settings"), start);
  const Batch feed = objective->feed(prepared, own.model->config());
  const std::vector<Tensor> made =
      run_graph(*own.model, feed, [](model::Builder& builder, const model::ForwardInputs& inputs) {
        const Value logits = builder.logits(builder.forward(inputs).hidden);
        return std::vector<Value>{logits, builder.filled().mean, builder.filled().log_sigma};
      });
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 1e-4});
  c.close(tolerance, made[0], c.array("logits"), "logits");
  c.close(tolerance, later(made[1], start), c.array("mu"), "mu");
  c.close(tolerance, later(made[2], start), c.array("log_sigma"), "log_sigma");
  model::FillerConfig filler = own.model->config().filler;
  filler.is_gaussian = variational;
  own.model->set_filler(filler);
  check_parts(c, entry, *own.model, *objective, prepared);
  check_step(c, entry, own, *objective, prepared);
}

// --- generation ---

Batch canvas_of(Case& c, const model::Model& model, const std::string& prompt, int64_t count) {
  Tensor masks(DType::i32, {1, count});
  std::ranges::fill(masks.mutable_as<int32_t>(),
                    static_cast<int32_t>(model.config().mask_token_id));
  Batch batch;
  batch.set("ids", joined(c.topic().array(prompt), masks));
  return batch;
}

Tensor means_of(const model::Model& model, const Batch& canvas, int64_t start) {
  const std::vector<Tensor> made =
      run_graph(model, canvas, [](model::Builder& builder, const model::ForwardInputs& inputs) {
        builder.forward(inputs);
        return std::vector<Value>{builder.filled().mean};
      });
  return later(made[0], start);
}

// Every pass after the first reads the likeliest tokens of the pass before it.
void run_generation(Case& c, const Json& entry) {
  const Adapted own = adapted(c, entry);
  const int64_t count = entry.at("completion_length"), passes = entry.at("passes");
  Batch canvas = canvas_of(c, *own.model, "generate.prompt_ids", count);
  const int64_t start = canvas.at("ids").shape()[1] - count;
  c.close(c.topic().tolerance(entry, {1e-4, 1e-4}), means_of(*own.model, canvas, start),
          c.array("mu"), "mu");
  c.check(entry.at("smallest_logit_gap").get<double>() > 1e-3, "gaps above the rounding");
  Options options(model::forward_schema());
  options.set_json({{"attention", "bidirectional"}, {"shift", 1}});
  Tensor rows(DType::i32, {passes, count});
  for (int64_t pass = 0; pass < passes; ++pass) {
    const Tensor logits = model::forward(*own.model, canvas, options).at("logits");
    const int64_t vocab = logits.shape()[2];
    Tensor ids = canvas.at("ids").clone();
    for (int64_t i = 0; i < count; ++i) {
      const auto row = logits.as<float>().subspan(static_cast<size_t>((start + i) * vocab),
                                                  static_cast<size_t>(vocab));
      const auto best = static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
      ids.mutable_as<int32_t>()[static_cast<size_t>(start + i)] = best;
      rows.mutable_as<int32_t>()[static_cast<size_t>(pass * count + i)] = best;
    }
    canvas.set("ids", ids);
  }
  c.equal(rows, c.array("rows"), "rows");
}

void run_spherical(Case& c, const Json& entry, const Json& generation) {
  const Adapted own = adapted(c, generation, entry.at("embedding_norm"));
  const std::string prompt = entry.at("prompt");
  const Tensor& wanted = c.array("mu");
  const Batch canvas = canvas_of(c, *own.model, prompt, wanted.shape()[1]);
  c.close(c.topic().tolerance(entry, {1e-4, 1e-4}),
          means_of(*own.model, canvas, c.topic().array(prompt).shape()[1]), wanted, "mu");
}

// --- mask fillers ---

// Returns what the filler gives where every position is masked.
Tensor deltas(const model::Model& model, const Tensor& x, const Tensor& keys = {},
              const Tensor& noise = {}) {
  Tensor ids(DType::i32, {x.shape()[0], x.shape()[1]});
  std::ranges::fill(ids.mutable_as<int32_t>(), static_cast<int32_t>(model.config().mask_token_id));
  Batch batch;
  batch.set("ids", ids);
  batch.set("embeddings", x);
  if (keys.defined()) batch.set("keys", keys.to(DType::u8));
  if (noise.defined()) batch.set(noise::kFillerNoise, noise);
  return run_graph(model, batch, [](model::Builder& builder, const model::ForwardInputs& inputs) {
    builder.forward(inputs);
    return std::vector<Value>{builder.filled().vectors};
  })[0];
}

void run_small(Case& c, const Json& entry, Reference& names, const std::string& llm) {
  const auto model = copy_of(c, llm);
  const Json& config = names.config();
  const int64_t hidden = config.at("hidden_size"), layers = config.at("num_layers");
  Json tower = tower_of(hidden, layers, config.at("num_heads"), config.at("intermediate_size"));
  tower["dllm"]["heads"]["delta"] = head_of(hidden);
  model::add_new_network(*model, "filler", tower, 0);
  model::FillerConfig filler;
  filler.kind = model::FillerKind::small;
  model->set_filler(filler);
  for (int64_t i = 0; i < layers; ++i)
    names.layer("encoder.layers." + std::to_string(i), "filler", i, false);
  names.linear("norm", {"filler/norm"});
  names.linear("out", {"filler/heads.delta"});
  names.write_to(*model);
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 1e-4});
  c.close(tolerance, deltas(*model, c.array("x"), c.array("attention_mask")), c.array("delta"),
          "delta");
  c.close(tolerance, deltas(*model, c.array("x")), c.array("delta_nomask"), "delta_nomask");
}

// The kernel (out, in, 4) of a convolution as a matrix (out, 4 in) over four neighbours.
Tensor kernel_matrix(const Tensor& kernel) {
  const int64_t out = kernel.shape()[0], in = kernel.shape()[1], width = kernel.shape()[2];
  Tensor made(DType::f32, {out, width * in});
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t k = 0; k < width; ++k)
        made.mutable_as<float>()[static_cast<size_t>((o * width + k) * in + i)] =
            kernel.as<float>()[static_cast<size_t>((o * in + i) * width + k)];
    }
  }
  return made;
}

// Adds the networks of a U-Net and their numbers.
void add_unet(model::Model& model, Reference& names) {
  const Json& config = names.config();
  const int64_t hidden = config.at("hidden_size"), inner = config.at("vfm_unet_hidden"),
                width = config.at("vfm_unet_ffn"), levels = config.at("vfm_unet_blocks");
  const auto add = [&](const std::string& part, Json tower, const std::string& layer) {
    tower["last_norm"] = false;
    model::add_new_network(model, part, tower, 0);
    names.layer(layer, part, 0, false);
  };
  const Json tower = tower_of(inner, 1, config.at("num_heads"), width);
  for (int64_t i = 0; i < levels; ++i) {
    const std::string number = std::to_string(i);
    Json encoder = tower;
    encoder["inputs"]["conv"] = {{"size", 4 * inner}};
    if (i == 0) encoder["inputs"]["x"] = {{"size", hidden}, {"bias", false}};
    add("filler_enc" + number, encoder, "enc_blocks." + number + ".layer");
    names.single("enc_convs." + number + ".bias", "filler_enc" + number + "/inputs.conv.bias");
    if (i > 0) add("filler_dec" + number, tower, "dec_blocks." + number + ".layer");
  }
  add("filler_mid", tower_of(inner, 1, config.at("num_heads"), 2 * width), "bottleneck.layer");
  Json last = tower;
  last["dllm"]["heads"]["out"] = {{"rows", hidden}};
  for (const char* name : {"mean", "log_var"}) {
    last["dllm"]["heads"][name] = head_of(hidden);
    last["dllm"]["heads"][name]["size"] = hidden;
    last["dllm"]["heads"][name]["norm"] = true;
  }
  add("filler", last, "dec_blocks.0.layer");
  names.single("in_proj.weight", "filler_enc0/inputs.x.weight");
  names.single("out_proj.weight", "filler/heads.out.weight");
  for (const auto& [reference, own] : {std::pair{"mu", "mean"}, std::pair{"logvar", "log_var"}}) {
    const std::string head = fmt::format("head.{}_head", reference);
    names.linear(head + ".0", {fmt::format("filler/heads.{}.norm", own)});
    names.linear(head + ".1", {fmt::format("filler/heads.{}", own)});
  }
  names.write_to(model);
  for (int64_t i = 0; i < levels; ++i)
    model.params().write(fmt::format("filler_enc{}/inputs.conv.weight", i),
                         kernel_matrix(names.tensor(fmt::format("enc_convs.{}.weight", i))));
}

Tensor first_positions(const Tensor& x, int64_t count) {
  const Shape& shape = x.shape();
  Tensor made(DType::f32, {shape[0], count, shape[2]});
  for (int64_t r = 0; r < shape[0]; ++r) {
    std::ranges::copy(x.rows(r, r + 1).as<float>().first(static_cast<size_t>(count * shape[2])),
                      made.mutable_as<float>().begin() + r * count * shape[2]);
  }
  return made;
}

void run_unet(Case& c, const Json& entry, Reference& names, const std::string& llm) {
  const auto model = copy_of(c, llm);
  add_unet(*model, names);
  model::FillerConfig filler;
  filler.kind = model::FillerKind::unet;
  filler.levels = names.config().at("vfm_unet_blocks");
  filler.is_gaussian = true;
  model->set_filler(filler);
  const Tolerance tolerance = c.topic().tolerance(entry, {1e-4, 1e-4});
  const Tensor x = c.array("x");
  c.close(tolerance, deltas(*model, x), c.array("delta_eval"), "delta_eval");
  c.close(tolerance, deltas(*model, x, {}, c.array("eps")), c.array("delta_train"), "delta_train");
  const Tensor& shorter = c.array("delta_eval_len8");
  c.close(tolerance, deltas(*model, first_positions(x, shorter.shape()[1])), shorter,
          "delta_eval_len8");
}

void run_module(Case& c, const Json& entry, const std::string& llm) {
  Reference names(c.topic(), entry.at("model"));
  const std::string type = names.config().at("model_type");
  if (type == "vfm_unet") return run_unet(c, entry, names, llm);
  c.check(type == "vfm_mask_filler", "a known kind of filler");
  run_small(c, entry, names, llm);
}

} // namespace

void run_vfm(Topic& topic) {
  const Json& cases = topic.list("cases");
  const auto generation = std::ranges::find_if(
      cases, [](const Json& entry) { return entry.at("kind") == "generation"; });
  for (const Json& entry : cases) {
    topic.run(entry, [&](Case& c) {
      const std::string kind = entry.at("kind");
      if (kind == "training_step") return run_step(c, entry);
      if (kind == "generation") return run_generation(c, entry);
      if (entry.contains("model")) return run_module(c, entry, generation->at("llm"));
      run_spherical(c, entry, *generation);
    });
  }
}

} // namespace dllm::parity

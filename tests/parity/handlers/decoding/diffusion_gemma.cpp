// families/diffusion_gemma: hidden states and logits of a prefix with a canvas behind it, with and
// without conditioning on the logits of a step before; and decoding call by call: argmax i32(S, B,
// canvas), entropy f32(S, B, canvas), accepted and finished by what follows from them; the training
// loss with its gradients (train.*); draws are those that the reference recorded (random_canvas,
// initial_canvas, u).

#include "base/files.h"
#include "graph/ops.h"
#include "handlers.h"
#include "handlers/models/family_cases.h"
#include "handlers/training/loss_checks.h"
#include "model/network/builder.h"
#include "noise/loss/evaluate.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

struct CanvasInputs {
  Tensor prefix, canvas;   // i32(batch, prefix), i32(batch, canvas)
  Tensor keys;             // u8(batch, prefix): may be seen; undefined: all
  Tensor logits;           // f32(batch, canvas, vocab) of the step before; undefined: none
  int64_t conditioned = 0; // so many rows are conditioned on them
};

struct CanvasStates {
  Tensor hidden, logits; // f32(batch, prefix + canvas, hidden or vocab)
};

// Rows of x (batch, m) and y (batch, n), one behind the other.
Tensor joined(const Tensor& x, const Tensor& y) {
  std::vector<int32_t> ids;
  for (int64_t b = 0; b < x.shape()[0]; ++b) {
    for (const Tensor& part : {x, y}) {
      const Ids row = family_ids(part.row(b));
      ids.insert(ids.end(), row.begin(), row.end());
    }
  }
  return Tensor::from(Shape{x.shape()[0], x.shape()[1] + y.shape()[1]}, ids);
}

// The mean embeddings behind zeros for the prefix, f32(batch, length, hidden).
graph::Value conditioning_of(model::Builder& builder, graph::Value logits, int64_t prefix,
                             int64_t conditioned) {
  graph::Graph& graph = builder.graph();
  const int64_t batch = logits.dim(0), canvas = logits.dim(1),
                hidden = builder.config().hidden_size;
  const graph::Value mean = graph::reshape(
      builder.mean_embedding(graph::reshape(logits, {batch * canvas, logits.dim(2)})),
      {batch, canvas, hidden});
  const graph::Value on = graph::less(graph::iota(graph, {batch, 1, 1}, DType::i32, 0),
                                      graph::scalar_i32(graph, static_cast<int32_t>(conditioned)));
  const graph::Value kept = graph::multiply(mean, graph::convert(on, DType::f32));
  return graph::concat({graph::full(graph, {batch, prefix, hidden}, 0.0f), kept}, 1);
}

CanvasStates run_canvas(model::Model& model, const CanvasInputs& given) {
  const Tensor ids = joined(given.prefix, given.canvas);
  const int64_t batch = ids.shape()[0], length = ids.shape()[1], prefix = given.prefix.shape()[1];
  std::vector<int32_t> limit;
  std::vector<uint8_t> keys;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < length; ++i) {
      limit.push_back(static_cast<int32_t>(i < prefix ? i + 1 : length));
      const bool seen = i >= prefix || !given.keys.defined() ||
                        given.keys.as<uint8_t>()[static_cast<size_t>(b * prefix + i)] != 0;
      keys.push_back(seen ? 1 : 0);
    }
  }
  const auto graph = std::make_shared<graph::Graph>("canvas");
  model::Builder builder(*graph, model);
  std::vector<graph::BufferRef> buffers = model.params().snapshot();
  const auto input = [&](const char* name, const Tensor& tensor) {
    buffers.push_back(model.engine().upload(tensor));
    return graph->input(name, tensor.dtype(), tensor.shape());
  };
  model::ForwardInputs inputs;
  inputs.ids = input("ids", ids);
  inputs.mask.and_key_limit(input("limit", Tensor::from(Shape{batch, length}, limit)));
  inputs.mask.and_key_keep(input("keys", Tensor::from(Shape{batch, length}, keys)));
  const std::vector<int32_t> start(static_cast<size_t>(batch), static_cast<int32_t>(prefix));
  inputs.canvas_start = input("start", Tensor::from(Shape{batch}, start));
  if (given.logits.defined())
    inputs.conditioning =
        conditioning_of(builder, input("logits", given.logits), prefix, given.conditioned);
  const model::ForwardOutputs made = builder.forward(inputs);
  graph->output("hidden", made.hidden);
  graph->output("logits", builder.logits(made.hidden));
  const auto results = model.engine().compile(graph)->run(buffers);
  return {results[0]->read().clone(), results[1]->read().clone()};
}

// Positions [begin, end) of every row against `array`; where `keys` is given, of those that may be
// seen.
void compare_span(Case& c, const Json& entry, const Tensor& got, int64_t begin, int64_t end,
                  const char* array, const Tensor& keys = {}) {
  for (int64_t b = 0; b < got.shape()[0]; ++b)
    c.close(c.topic().tolerance(entry), got.row(b).rows(begin, end), c.array(array).row(b), array,
            keys.defined() ? keys.row(b) : Tensor());
}

void compare_left_padding(Case& c, const Json& entry, model::Model& model) {
  const Tensor &prompt = c.array("prompt"), &valid = c.array("valid");
  const int64_t prefix = prompt.shape()[1];
  const CanvasStates made = run_canvas(model, {prompt, c.array("canvas"), valid, {}, 0});
  compare_span(c, entry, made.hidden, 0, prefix, "encoder_hidden", valid);
  compare_span(c, entry, made.logits, prefix, made.logits.shape()[1], "logits");
}

void compare_canvases(Case& c, const Json& entry, model::Model& model) {
  const Tensor &prompt = c.array("prompt"), &canvas2 = c.array("canvas2");
  const int64_t batch = prompt.shape()[0], prefix = prompt.shape()[1],
                length = prefix + canvas2.shape()[1];
  const CanvasStates first = run_canvas(model, {prompt, c.array("canvas"), {}, {}, 0});
  compare_span(c, entry, first.hidden, 0, prefix, "encoder_hidden");
  compare_span(c, entry, first.logits, 0, prefix, "encoder_logits");
  compare_span(c, entry, first.logits, prefix, length, "logits");
  const Tensor& logits = c.array("sc_logits");
  const CanvasStates all = run_canvas(model, {prompt, canvas2, {}, logits, batch});
  compare_span(c, entry, all.logits, prefix, length, "logits2");
  const CanvasStates one = run_canvas(model, {prompt, canvas2, {}, logits, 1});
  compare_span(c, entry, one.logits, prefix, length, "logits2_sc_row0_only");
  const Tensor longer = joined(prompt, c.array("block"));
  const CanvasStates third = run_canvas(model, {longer, c.array("canvas3"), {}, {}, 0});
  compare_span(c, entry, third.hidden, prefix, longer.shape()[1], "block_encoder_hidden");
  compare_span(c, entry, third.logits, longer.shape()[1], third.logits.shape()[1], "logits3");
}

// What the reference drew for one of its rows.
class RecordedNoise final : public decode::RandomSource {
public:
  RecordedNoise(Case& c, int64_t row, int64_t vocab)
      : first_(c.array("initial_canvas")), noise_(c.array("random_canvas")), row_(row),
        vocab_(static_cast<float>(vocab)) {
    if (c.has("u")) uniform_ = c.array("u");
  }
  void set_call(int64_t call) { call_ = call; }

  float uniform(const decode::Request& request, int64_t position, int word) const override {
    const auto at = static_cast<size_t>(position - request.block_begin());
    if (word == 0) return uniform_.defined() ? uniform_.row(call_).row(row_).as<float>()[at] : 0.5f;
    const Tensor tokens = word == 3 ? first_.row(request.block) : noise_.row(call_);
    return (static_cast<float>(tokens.row(row_).as<int32_t>()[at]) + 0.5f) / vocab_;
  }

private:
  Tensor first_, noise_, uniform_;
  int64_t row_, call_ = 0;
  float vocab_;
};

Options canvas_options(const Json& entry, const char* cache) {
  const Json& p = entry.at("parameters");
  Options options(decode::decoder_schema("diffusion_gemma"));
  options.set_json(Json{{"denoising_steps", p.at("max_denoising_steps")},
                        {"entropy_bound", p.at("entropy_bound")},
                        {"t_min", p.at("t_min")},
                        {"t_max", p.at("t_max")},
                        {"stability", p.at("stability_threshold")},
                        {"confidence", p.at("confidence_threshold")},
                        {"temperature", entry.at("denoiser_tokens") == "argmax" ? 0.0 : 1.0},
                        {"cache", cache}});
  return options;
}

void compare_first_steps(Case& c, const Json& entry, model::Model& model) {
  const Tolerance tolerance{entry.at("atol_first_logits").get<double>(), 0};
  const Tensor& prompt = c.array("prompt");
  const int64_t batch = prompt.shape()[0], begin = prompt.shape()[1];
  const auto compare = [&](const CanvasStates& made, const char* name) {
    for (int64_t b = 0; b < batch; ++b)
      c.close(tolerance, made.logits.row(b).rows(begin, made.logits.shape()[1]),
              c.array(name).row(b), name);
  };
  compare(run_canvas(model, {prompt, c.array("canvas").row(0), {}, {}, 0}), "first_logits");
  const auto finished = c.array("finished").row(0).as<uint8_t>();
  if (std::ranges::find(finished, uint8_t{1}) != finished.end()) return;
  Tensor scaled = c.array("first_logits").clone();
  for (float& number : scaled.mutable_as<float>()) number /= c.array("temperature").as<float>()[0];
  compare(run_canvas(model, {prompt, c.array("canvas").row(1), {}, scaled, batch}),
          "second_logits");
}

// One call of the reference against a step of the decoder.
void compare_canvas_step(Case& c, const Json& entry, decode::Decoder& decoder, int64_t row,
                         int64_t call) {
  decoder.predict();
  const decode::RequestCopyRef said = decoder.copy(0);
  Ids draft;
  std::vector<float> entropy;
  for (const decode::Prediction& p : *said->predictions) {
    draft.push_back(p.argmax);
    entropy.push_back(p.shaped_entropy);
  }
  c.equal(text_of(draft), text_of(family_ids(c.array("argmax").row(call).row(row))),
          fmt::format("draft of call {}", call));
  const auto count = static_cast<int64_t>(entropy.size());
  c.close({entry.at("atol_entropy").get<double>(), 0}, Tensor::from(Shape{count}, entropy),
          c.array("entropy").row(call).row(row), fmt::format("entropy of call {}", call));
  decoder.step();
}

void run_canvas_row(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
                    int64_t row, const char* cache) {
  decode::Decoder decoder(model, canvas_options(entry, cache));
  const auto noise = std::make_shared<RecordedNoise>(c, row, model->config().vocab_size);
  decoder.set_random_source(noise);
  Options slot(decode::request_schema());
  slot.set_i64("gen_length", entry.at("parameters").at("max_new_tokens").get<int64_t>());
  const Ids stop = case_ids(entry.at("eos_token_id")), pad = case_ids(entry.at("pad_token_id"));
  slot.set_text("stop", list_text(stop));
  const Ids prompt = family_ids(c.array("prompt").row(row));
  decoder.add(prompt, {}, slot);
  const auto canvases = c.array("canvas_index").as<int32_t>();
  int64_t calls = 0;
  for (int64_t call = 0; call < static_cast<int64_t>(canvases.size()); ++call) {
    const decode::Request& request = decoder.request(0);
    // Rows of a batch wait for each other.
    if (!request.active() || request.block != canvases[static_cast<size_t>(call)]) continue;
    noise->set_call(call);
    compare_canvas_step(c, entry, decoder, row, call);
    ++calls;
  }
  c.check(!decoder.request(0).active(), "the request is not done after the reference's calls");
  Ids want = family_ids(c.array("final").row(row));
  const auto begin = static_cast<std::ptrdiff_t>(prompt.size());
  const auto end = std::find_first_of(want.begin() + begin, want.end(), stop.begin(), stop.end());
  if (end != want.end()) want.erase(end + 1, want.end());
  const Ids& ids = decoder.request(0).ids;
  c.equal(text_of({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(want.size())}),
          text_of(want), "final");
  // The reference counts no pads, those neither that the model generates.
  const auto tokens = std::count_if(want.begin() + begin, want.end(), [&](int32_t id) {
    return std::find(pad.begin(), pad.end(), id) == pad.end();
  });
  const auto rate = entry.at("tokens_per_forward").at(static_cast<size_t>(row)).get<double>();
  c.close({1e-5, 0}, static_cast<double>(tokens) / static_cast<double>(calls), rate,
          "tokens per call");
}

// The recorded noise as uniform numbers: a token that is noise has one below every time, and one of
// its own.
Batch raw_training(Case& c, const Json& entry, int64_t vocab) {
  const int64_t prefix = entry.at("prefix"), block = entry.at("block");
  const Tensor &clean = c.array("clean"), &noisy = c.array("noisy");
  const int64_t rows = clean.shape()[0], seq = clean.shape()[1], wide = seq + block;
  std::vector<uint8_t> keep;
  std::vector<float> mask(static_cast<size_t>(rows * wide), 1.0f), token(mask.size(), 0.0f), at;
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t i = 0; i < seq; ++i) keep.push_back(i < prefix ? 1 : 0);
    for (int64_t i = prefix; i < seq; ++i) {
      const auto from = static_cast<size_t>(i - prefix), to = static_cast<size_t>(b * wide + i);
      if (c.array("corrupt").row(b).as<uint8_t>()[from] != 0) mask[to] = 0.0f;
      token[to] =
          (static_cast<float>(noisy.row(b).as<int32_t>()[from]) + 0.5f) / static_cast<float>(vocab);
    }
    const int64_t blocks = (seq - prefix + block - 1) / block;
    at.push_back((entry.at("selected_block").at(static_cast<size_t>(b)).get<float>() + 0.5f) /
                 static_cast<float>(blocks));
  }
  std::vector<float> coin;
  for (const Json& heads : entry.at("sc_coin")) coin.push_back(heads.get<int>() == 1 ? 0.0f : 1.0f);
  Batch raw;
  raw.set("ids", clean);
  raw.set("keep", Tensor::from(Shape{rows, seq}, keep));
  raw.set("u_mask", Tensor::from(Shape{rows, wide}, mask));
  raw.set("u_token", Tensor::from(Shape{rows, wide}, token));
  raw.set("u_block", Tensor::from(Shape{rows}, at));
  raw.set("u_condition", Tensor::from(Shape{rows}, coin));
  return raw;
}

// The published loss has the mean of the next tokens of all rows; the objective's own weighs rows
// by their blocks.
void set_published_weights(Batch& prepared, int64_t seq) {
  double blocks = 0;
  for (const float tokens : prepared.at("normalizer").as<float>()) blocks += tokens;
  Tensor weights = prepared.at("weights").clone();
  const int64_t rows = weights.shape()[0], wide = weights.shape()[1];
  for (int64_t b = 0; b < rows; ++b) {
    for (int64_t i = 0; i + 1 < seq; ++i) {
      weights.mutable_as<float>()[static_cast<size_t>(b * wide + i)] =
          static_cast<float>(blocks / static_cast<double>(rows * (seq - 1)));
    }
  }
  prepared.set("weights", weights);
}

void check_training(Case& c, const Json& entry, model::Model& model) {
  Options options(noise::objective_schema("diffusion_gemma"));
  options.set_json(Json{{"block_length", entry.at("block")}, {"conditioned", 0.5}});
  const noise::ObjectiveRef objective = noise::make_objective("diffusion_gemma", nullptr, options);
  const Batch raw = raw_training(c, entry, model.config().vocab_size);
  Batch prepared =
      objective->prepare(raw, 0, 0, noise::prepare_context(*objective, model.config()));
  const int64_t prefix = entry.at("prefix"), block = entry.at("block");
  const int64_t seq = c.array("clean").shape()[1];
  for (int64_t b = 0; b < prepared.at("ids").shape()[0]; ++b) {
    const int64_t begin =
        entry.at("selected_block").at(static_cast<size_t>(b)).get<int64_t>() * block;
    const int64_t end = std::min(begin + block, seq - prefix);
    const auto got = prepared.at("ids").row(b).as<int32_t>(),
               want = c.array("noisy").row(b).as<int32_t>();
    for (int64_t i = begin; i < end; ++i) {
      c.equal(got[static_cast<size_t>(seq + i - begin)], want[static_cast<size_t>(i)],
              fmt::format("token {} of the answer of row {}", i, b));
    }
  }
  set_published_weights(prepared, seq);
  const Tolerance tolerance = c.topic().tolerance(entry);
  const noise::LossGradients got = noise::loss_gradients(model, *objective, prepared);
  check_gradients(c, got,
                  {tolerance.relative, tolerance.relative, entry.at("loss").get<double>(), {}});
  check_gradient_norms(c, got, entry.at("grad_norms"), tolerance);
}

// The same model in the words of the published checkpoint.
void compare_other_words(Case& c, const model::ModelConfig& config, const std::string& folder) {
  const std::string file = folder + "/config_global_keys.json";
  const model::ModelConfig other = model::config_from_text(read_text(file), file);
  c.equal(other.global_attention.head_dim, config.global_attention.head_dim, "head_dim");
  c.equal(other.global_attention.kv_heads, config.global_attention.kv_heads, "kv_heads");
  c.check(other.mixers == config.mixers, "the layers are of other kinds");
}

} // namespace

void run_diffusion_gemma(Topic& topic) {
  const std::shared_ptr<model::Model> model = topic.model(topic.cases().at("model"));
  for (const Json& entry : topic.list("cases")) {
    const auto kind = entry.at("kind").get<std::string>();
    if (kind == "forward")
      topic.run(entry, [&](Case& c) {
        (c.has("valid") ? compare_left_padding : compare_canvases)(c, entry, *model);
      });
    else if (kind == "training")
      topic.run(entry, [&](Case& c) { check_training(c, entry, *model); });
    else
      topic.run(entry, [&](Case& c) {
        compare_first_steps(c, entry, *model);
        for (const char* cache : {"exact", "none"}) {
          for (int64_t row = 0; row < c.array("prompt").shape()[0]; ++row)
            run_canvas_row(c, entry, model, row, cache);
        }
      });
  }
  topic.run(std::string("config_global_keys"), [&](Case& c) {
    compare_other_words(c, model->config(), topic.model_folder(topic.cases().at("model")));
  });
}

} // namespace dllm::parity

#include "noise/fillers/filler_use.h"

#include "base/error.h"
#include "base/random.h"
#include "graph/ops.h"
#include "noise/objective.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace dllm::noise {
namespace {

using model::FillerKind;

FillerKind kind_of(const Options& options) {
  for (const FillerKind kind : {FillerKind::small, FillerKind::unet, FillerKind::adapter}) {
    if (options.str("filler") == filler_kind_name(kind)) return kind;
  }
  return FillerKind::none;
}

// The options that only a new filler of some kinds reads.
struct OptionUse {
  const char* key;
  std::initializer_list<FillerKind> kinds;
};
const OptionUse kUses[] = {
    {"filler_scale", {FillerKind::small, FillerKind::unet, FillerKind::adapter}},
    {"filler_layers", {FillerKind::small, FillerKind::unet, FillerKind::adapter}},
    {"filler_heads", {FillerKind::small, FillerKind::unet, FillerKind::adapter}},
    {"filler_ffn", {FillerKind::small, FillerKind::unet, FillerKind::adapter}},
    {"filler_hidden", {FillerKind::unet}},
    {"filler_gaussian", {FillerKind::unet, FillerKind::adapter}},
    {"filler_context", {FillerKind::adapter}},
    {"filler_spherical", {FillerKind::adapter}},
};

int64_t layers_of(FillerKind kind, const Options& options) {
  if (options.i64("filler_layers") > 0) return options.i64("filler_layers");
  return kind == FillerKind::small ? 2 : kind == FillerKind::unet ? 3 : 4;
}

Json head_of(int64_t rows, bool zero = false) {
  return {{"rows", rows}, {"bias", true}, {"zero", zero}};
}

} // namespace

FillerUse::FillerUse(const Options& options) : options_(options), kind_(kind_of(options)) {}

std::vector<OptionSpec> FillerUse::option_rows() {
  std::vector<OptionSpec> rows = {
      option_choice("filler", "auto", {"auto", "small", "unet", "adapter"},
                    "Mask filler that is trained with the model: small and unet add to the "
                    "embedding of mask tokens, adapter replaces it; auto: the model's own."),
      option_f64("filler_alpha", 0.8, 0.0, 1.0, "Share of the rows that have the mask filler."),
      option_f64("filler_grad_scale", 1.0, 0.0, 1e6,
                 "Factor of the gradient that arrives at the mask filler."),
      option_f64("filler_scale", 0.0, 0.0, 1e6,
                 "s: a new filler gives s tanh(x), about the scale of embeddings; 0: x itself."),
      option_i64("filler_layers", 0, 0, 64,
                 "Layers of a new filler, or levels of a U-Net; 0: small 2, unet 3, adapter 4."),
      option_i64("filler_heads", 0, 0, 1024,
                 "Attention heads of a new filler; 0: 8 where it divides the width, else 1."),
      option_i64("filler_ffn", 0, 0, 1 << 20,
                 "Width of its feed-forward networks; 0: twice the width, adapter four times."),
      option_i64("filler_hidden", 0, 0, 1 << 20, "Width of a U-Net; 0: the width of the model."),
      option_bool("filler_gaussian", true,
                  "A new unet or adapter draws its result in training; false: it is a point."),
      option_choice("filler_context", "visible", {"visible", "prompt"},
                    "What an adapter reads: all visible tokens, or the given ones at the front."),
      option_bool("filler_spherical", false,
                  "The mean of an adapter has the mean length of the embeddings."),
  };
  for (OptionSpec& row : rows) row.group = "filler";
  return rows;
}

void check_filler(const std::string& objective, RowKind rows, const Options& options) {
  const FillerKind kind = kind_of(options);
  const bool fits =
      rows == RowKind::masked || rows == RowKind::two_streams || rows == RowKind::given;
  if (kind != FillerKind::none && !fits) {
    fail_with_hint("leave filler out, or use mdlm", Code::invalid_argument,
                   "option filler needs rows with mask tokens, and objective {} makes others",
                   objective);
  }
  for (const OptionUse& use : kUses) {
    if (!options.is_set(use.key) || std::ranges::find(use.kinds, kind) != use.kinds.end()) continue;
    fail_with_hint("set filler to a kind that reads it", Code::invalid_argument,
                   "option {} is set and changes nothing: filler is {}", use.key,
                   options.str("filler"));
  }
}

Json FillerUse::tower(const model::ModelConfig& base, int64_t hidden, int64_t layers,
                      int64_t width) const {
  int64_t heads = options_.i64("filler_heads");
  if (heads == 0) heads = hidden % 8 == 0 ? 8 : 1;
  if (hidden % heads != 0) {
    fail(Code::invalid_argument, "filler_heads is {}, expected a divisor of the width {}", heads,
         hidden);
  }
  // Rotations need heads of an even size.
  const bool rotates = (hidden / heads) % 2 == 0;
  const int64_t ffn = options_.i64("filler_ffn");
  return {{"model_type", "dllm_tower"},
          {"hidden_size", hidden},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"intermediate_size", ffn > 0 ? ffn : width * hidden},
          {"max_position_embeddings", base.max_positions},
          {"positions", rotates ? "rotary" : "none"},
          {"attention_bias", true}};
}

std::map<std::string, Json> FillerUse::networks(const model::ModelConfig& base) const {
  const int64_t hidden = base.hidden_size, layers = layers_of(kind_, options_);
  const bool gaussian = options_.boolean("filler_gaussian");
  const std::string own(model::kFillerPart);
  std::map<std::string, Json> made;
  if (kind_ == FillerKind::small) {
    made[own] = tower(base, hidden, layers, 2);
    made[own]["dllm"]["heads"]["delta"] = head_of(hidden, true);
  } else if (kind_ == FillerKind::adapter) {
    const bool prompt = options_.str("filler_context") == "prompt";
    made[own + "_prompt"] = tower(base, hidden, layers, 4);
    if (!prompt) made[own + "_prompt"]["positions"] = "learned";
    Json& writer = made[own] = tower(base, hidden, layers, 4);
    writer["positions"] = "learned";
    writer["context_size"] = hidden;
    writer["mixer"] = "self_cross_attention";
    writer["dllm"]["heads"]["mean"] = head_of(hidden);
    if (gaussian) writer["dllm"]["heads"]["log_sigma"] = head_of(hidden, true);
  } else if (kind_ == FillerKind::unet) {
    const int64_t inner =
        options_.i64("filler_hidden") > 0 ? options_.i64("filler_hidden") : hidden;
    const auto level = [&](int64_t width) {
      Json config = tower(base, inner, 1, width);
      config["last_norm"] = false;
      return config;
    };
    for (int64_t i = 0; i < layers; ++i) {
      Json& encoder = made[own + "_enc" + std::to_string(i)] = level(2);
      encoder["inputs"]["conv"] = {{"size", 4 * inner}};
      if (i == 0) encoder["inputs"]["x"] = {{"size", hidden}, {"bias", false}};
      if (i > 0) made[own + "_dec" + std::to_string(i)] = level(2);
    }
    made[own + "_mid"] = level(4);
    Json& last = made[own] = level(2);
    last["dllm"]["heads"]["out"] = {{"rows", hidden}};
    for (const char* name : {"mean", "log_var"}) {
      if (!gaussian && std::string_view(name) == "log_var") continue;
      Json head = head_of(hidden);
      head["size"] = hidden;
      head["norm"] = true;
      last["dllm"]["heads"][name] = head;
    }
  }
  return made;
}

model::FillerConfig FillerUse::settings(double embedding_length) const {
  model::FillerConfig made;
  made.kind = kind_;
  made.scale = options_.f64("filler_scale");
  if (kind_ == FillerKind::unet) made.levels = layers_of(kind_, options_);
  made.is_gaussian = kind_ != FillerKind::small && options_.boolean("filler_gaussian");
  if (kind_ != FillerKind::adapter) return made;
  made.reads_prompt = options_.str("filler_context") == "prompt";
  if (options_.boolean("filler_spherical")) made.length = embedding_length;
  return made;
}

namespace {

// Fails when a model already has a filler of another kind.
void check_kind(const model::FillerConfig& own, FillerKind wanted) {
  if (wanted == FillerKind::none || own.kind == wanted) return;
  fail_with_hint("set filler to auto, or train from the model without it", Code::invalid_argument,
                 "the model has a mask filler of kind {}, and option filler is {}",
                 filler_kind_name(own.kind), filler_kind_name(wanted));
}

} // namespace

void FillerUse::add_to(model::Model& model, uint64_t seed) const {
  const model::ModelConfig& config = model.config();
  if (config.filler.on()) return check_kind(config.filler, kind_);
  if (!is_named()) {
    for (const char* key : {"filler_alpha", "filler_grad_scale", "consistency"}) {
      if (!options_.is_set(key)) continue;
      fail_with_hint("set filler", Code::invalid_argument,
                     "option {} is set and changes nothing: the model has no mask filler", key);
    }
    return;
  }
  for (const auto& [name, network] : networks(config))
    model::add_new_network(model, name, network, seed);
  model.set_filler(settings(embedding_length(model)));
}

void FillerUse::add_to(model::ModelConfig& config) const {
  if (config.filler.on()) return check_kind(config.filler, kind_);
  if (!is_named()) return;
  model::add_parts(config, networks(config));
  config.filler = settings(1);
}

void FillerUse::check(const model::ModelConfig& config, model::AttentionKind attention) const {
  const FillerKind kind = config.filler.kind;
  if (kind != FillerKind::unet && kind != FillerKind::adapter) return;
  if (attention == model::AttentionKind::bidirectional) return;
  fail_with_hint("use filler small, which sees what the model sees", Code::invalid_argument,
                 "a mask filler of kind {} reads whole rows, and the attention of the loss is {}",
                 filler_kind_name(kind), model::attention_name(attention));
}

void FillerUse::prepare(Batch& prepared, const model::FillerConfig& filler, bool held_out,
                        const TermDraws& draws) const {
  if (!filler.on() || held_out) return;
  const int64_t rows = prepared.at("ids").shape()[0];
  const auto key_of = [&](int64_t row) {
    constexpr uint32_t kOwn = 0x66696c6c; // "fill"
    return fold_in(stream_key(draws.seed, Stream::mask, static_cast<uint64_t>(draws.step),
                              static_cast<uint64_t>(draws.first_row + row)),
                   kOwn);
  };
  const auto alpha = static_cast<float>(options_.f64("filler_alpha"));
  if (alpha < 1 && !prepared.has(kFillerOn)) {
    Tensor on(DType::f32, {rows});
    for (int64_t row = 0; row < rows; ++row) {
      const float uniform = uniform_from_bits(random_bits_at(key_of(row), 0));
      on.mutable_as<float>()[static_cast<size_t>(row)] = uniform < alpha ? 1.0f : 0.0f;
    }
    prepared.set(kFillerOn, on);
  }
  if (!filler.is_gaussian || prepared.has(kFillerNoise) || prepared.has(kFillerKeys)) return;
  Tensor keys(DType::u32, {rows, 2});
  for (int64_t row = 0; row < rows; ++row) {
    const Key own = fold_in(key_of(row), 1);
    keys.mutable_as<uint32_t>()[static_cast<size_t>(2 * row)] = own.hi;
    keys.mutable_as<uint32_t>()[static_cast<size_t>(2 * row + 1)] = own.lo;
  }
  prepared.set(kFillerKeys, keys);
}

void FillerUse::feed(const Batch& prepared, const model::FillerConfig& filler, Batch& feed) const {
  if (!filler.on()) return;
  for (const char* name : {kFillerOn, kFillerKeys, kFillerNoise, kFillerStart}) {
    if (const Tensor* array = prepared.find(name)) feed.set(name, *array);
  }
  const Tensor* keep = prepared.find("keep");
  if (!filler.reads_prompt || keep == nullptr || feed.has(kFillerStart)) return;
  const int64_t rows = keep->shape()[0], seq = keep->shape()[1];
  const Tensor kept = keep->to(DType::u8);
  Tensor starts(DType::i32, {rows});
  for (int64_t row = 0; row < rows; ++row) {
    const auto own =
        kept.as<uint8_t>().subspan(static_cast<size_t>(row * seq), static_cast<size_t>(seq));
    const auto end = std::ranges::find(own, uint8_t{0});
    starts.mutable_as<int32_t>()[static_cast<size_t>(row)] =
        static_cast<int32_t>(end - own.begin());
  }
  feed.set(kFillerStart, starts);
}

void add_filler_parts(Loss& loss, const model::FilledMasks& filled) {
  if (!filled.at.defined()) return;
  const graph::Value squares = graph::sum(graph::multiply(filled.vectors, filled.vectors), {2});
  const graph::Value lengths = graph::multiply(graph::sqrt(squares), filled.at);
  loss.parts.push_back({"filler_norm", graph::stop_gradient(graph::sum(lengths, {0, 1})),
                        graph::sum(filled.at, {0, 1})});
}

double embedding_length(const model::Model& model) {
  for (const model::ParamStore::Physical& entry : model.params().physical()) {
    if (entry.name != "embedding") continue;
    const Tensor table = model.params().read(entry.spec.pieces.front().logical).to(DType::f32);
    const auto numbers = table.as<float>();
    const auto width = static_cast<size_t>(table.shape()[1]);
    double sum = 0;
    for (size_t row = 0; row < numbers.size(); row += width) {
      double squares = 0;
      for (const float x : numbers.subspan(row, width)) squares += static_cast<double>(x) * x;
      sum += std::sqrt(squares);
    }
    return sum / static_cast<double>(table.shape()[0]) * model.config().embedding_scale;
  }
  fail(Code::internal, "the model has no embedding");
}

} // namespace dllm::noise

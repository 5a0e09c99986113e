// Alignment of hidden states: the student keeps the directions that its causal teacher gives to a
// text, while it learns to denoise ("Don't Retrain - Align", arXiv 2605.06885).
//   sum += weight * sum_rows normalizer(row) * mean over positions and layers of the distance
// Every row counts as much as it counts in the loss of the objective, so the sum over parts of a
// batch, micro-batches and ranks is the sum over the batch.

#include "base/error.h"
#include "graph/ops.h"
#include "noise/loss/token_ce.h"
#include "noise/terms/align_distance.h"
#include "noise/terms/align_rows.h"
#include "noise/terms/table.h"
#include "text/data/anchor_cache.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::noise {
namespace {

using graph::Value;

constexpr const char* kTeacherTap = "align_teacher_"; // of the feed: f32(batch * k, hidden)

AlignKind kind_of(const std::string& name) {
  if (name == "angular") return AlignKind::angular;
  if (name == "infonce") return AlignKind::infonce;
  return name == "blocks" ? AlignKind::blocks : AlignKind::cosine;
}

AlignPositions positions_of(const std::string& name) {
  if (name == "supervised") return AlignPositions::supervised;
  return name == "all" ? AlignPositions::all : AlignPositions::visible;
}

class Align final : public LossTerm {
public:
  explicit Align(const Options& options) : options_(options) {
    distance_.kind = kind_of(options.str("align_kind"));
    distance_.margin = options.f64("align_margin");
    distance_.temperature = options.f64("align_temperature");
  }
  bool is_prepared(const Batch& prepared) const override { return prepared.has(kAlignPositions); }
  void prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const override;
  void feed(const Batch& prepared, const TermContext& context, Batch& feed) const override;
  const char* tap_rows() const override { return kAlignRows; }
  Value build(const TermInputs& inputs) const override;

private:
  bool cached() const { return options_.str("teacher") == "rows"; }
  std::vector<int64_t> layers(int64_t of_model) const {
    return named_layers("align_layers", options_.list("align_layers"), of_model);
  }
  double weight(int64_t step) const;
  std::vector<float> drawn_layers(int64_t count, const TermDraws& draws) const;

  Options options_;
  AlignDistance distance_;
};

// Returns the weight of the term: a cosine from align to align_final, which is reached at update
// align_steps.
double Align::weight(int64_t step) const {
  const double start = options_.f64("align"), end = options_.f64("align_final");
  const int64_t steps = options_.i64("align_steps");
  if (end < 0 || steps == 0) return start;
  const double part = std::min(1.0, static_cast<double>(step) / static_cast<double>(steps));
  return end + (start - end) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// Draws align_layer_count layers for the whole step.
std::vector<float> Align::drawn_layers(int64_t count, const TermDraws& draws) const {
  const int64_t wanted = options_.i64("align_layer_count");
  const auto size = static_cast<size_t>(count);
  const auto used = std::make_unique<bool[]>(size);
  std::fill_n(used.get(), size, wanted == 0 || wanted >= count);
  if (wanted > 0 && wanted < count) {
    const Key key = stream_key(draws.seed, Stream::align, static_cast<uint64_t>(draws.step), 0);
    const std::vector<int64_t> order = drawn_order(fold_in(key, 1), count);
    for (int64_t i = 0; i < wanted; ++i)
      used[static_cast<size_t>(order[static_cast<size_t>(i)])] = true;
  }
  return layer_weights(count, options_.f64("align_layer_exp"), {used.get(), size});
}

void Align::prepare(Batch& prepared, const TermContext& context, const TermDraws& draws) const {
  const Tensor targets = prepared.at("targets").to(DType::i32);
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  const double share = options_.f64("align_share");
  const auto width =
      std::max<int64_t>(1, static_cast<int64_t>(std::floor(share * static_cast<double>(seq))));
  const bool in_blocks = distance_.kind == AlignKind::blocks;
  const int64_t units = in_blocks ? options_.i64("align_blocks") : width;
  const auto used = static_cast<int64_t>(layers(context.layers).size());
  const std::vector<float> of_layers = drawn_layers(used, draws);
  Tensor positions(DType::i32, {batch, width}), weights(DType::f32, {batch, units}),
      layer_rows(DType::f32, {batch, used}), blocks(DType::f32, {batch, units, width});
  if (units > width) {
    fail_with_hint("use fewer blocks, or longer rows", Code::invalid_argument,
                   "align_blocks is {}, and a row has {} compared positions", units, width);
  }
  Tensor segments;
  if (const Tensor* given = prepared.find("segments")) segments = given->to(DType::i32);
  const Tensor clean = clean_ids(prepared), shown = prepared.at("ids").to(DType::i32);
  for (int64_t b = 0; b < batch; ++b) {
    const auto row = [&](std::span<const int32_t> all) {
      return all.subspan(static_cast<size_t>(b * seq), static_cast<size_t>(seq));
    };
    AlignRow tokens{
        row(shown.as<int32_t>()), row(clean.as<int32_t>()), row(targets.as<int32_t>()), {}, seq};
    if (segments.defined()) tokens.segments = row(segments.as<int32_t>());
    std::vector<int32_t> chosen =
        aligned_positions(tokens, positions_of(options_.str("align_positions")), context.shift);
    if (share < 1) {
      const Key key = stream_key(draws.seed, Stream::align, static_cast<uint64_t>(draws.step),
                                 static_cast<uint64_t>(draws.first_row + b));
      chosen = share_of(chosen, drawn_order(key, static_cast<int64_t>(chosen.size())), share);
    }
    std::ranges::copy(chosen, positions.mutable_as<int32_t>().begin() + b * width);
    const auto count = static_cast<int64_t>(chosen.size());
    const int64_t compared = in_blocks ? (count >= units ? units : 0) : count;
    std::fill_n(weights.mutable_as<float>().begin() + b * units, compared,
                1.0f / static_cast<float>(std::max<int64_t>(compared, 1)));
    std::ranges::copy(of_layers, layer_rows.mutable_as<float>().begin() + b * used);
    if (in_blocks) {
      std::ranges::copy(block_means(count, units, width),
                        blocks.mutable_as<float>().begin() + b * units * width);
    }
  }
  prepared.set(kAlignPositions, positions);
  prepared.set(kAlignWeights, weights);
  prepared.set(kAlignLayers, layer_rows);
  if (in_blocks) prepared.set(kAlignBlocks, blocks);
  prepared.set(weight_array("align"), Tensor::scalar(static_cast<float>(weight(draws.step))));
}

// Returns the rows of an array (batch, seq, hidden) that are compared.
Tensor teacher_rows(const Tensor& states, const std::string& name, const Tensor& targets,
                    std::span<const int32_t> rows) {
  const Shape& shape = states.shape();
  if (shape.rank() != 3 || shape[0] != targets.shape()[0] || shape[1] != targets.shape()[1]) {
    fail(Code::invalid_argument, "array {} has shape {}, expected ({}, {}, hidden)", name,
         shape.text(), targets.shape()[0], targets.shape()[1]);
  }
  check_finite(name, states);
  const Tensor numbers = states.to(DType::f32);
  Tensor made(DType::f32, {static_cast<int64_t>(rows.size()), shape[2]});
  const auto width = static_cast<size_t>(shape[2]);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::ranges::copy(numbers.as<float>().subspan(static_cast<size_t>(rows[i]) * width, width),
                      made.mutable_as<float>().subspan(i * width).begin());
  }
  return made;
}

// Returns an array of prepared rows, which a caller may have made. Dimensions of -1 have any size.
Tensor checked(const Batch& prepared, const char* name, DType dtype, const Shape& wanted) {
  const Tensor& array = prepared.at(name);
  bool fits = array.shape().rank() == wanted.rank();
  for (int64_t i = 0; fits && i < wanted.rank(); ++i)
    fits = wanted[i] < 0 || array.shape()[i] == wanted[i];
  if (!fits) {
    fail(Code::invalid_argument, "array {} has shape {}, expected {} (-1: any size)", name,
         array.shape().text(), wanted.text());
  }
  check_finite(name, array);
  return array.to(dtype);
}

void Align::feed(const Batch& prepared, const TermContext& context, Batch& feed) const {
  const Tensor targets = prepared.at("targets").to(DType::i32);
  const int64_t batch = targets.shape()[0], seq = targets.shape()[1];
  const Tensor positions = checked(prepared, kAlignPositions, DType::i32, {batch, -1});
  check_between(kAlignPositions, positions, 0, seq - 1, "the row");
  const int64_t width = positions.shape()[1];
  const bool in_blocks = distance_.kind == AlignKind::blocks;
  Tensor rows(DType::i32, {batch * width});
  Tensor weights =
      checked(prepared, kAlignWeights, DType::f32, {batch, in_blocks ? -1 : width}).clone();
  const auto all = rows.mutable_as<int32_t>();
  const auto normalizer = feed.at(kNormalizer).as<float>();
  const int64_t units = weights.shape()[1];
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<size_t>(b * width + i);
      all[at] = static_cast<int32_t>(b * seq) + positions.as<int32_t>()[at];
    }
    for (int64_t i = 0; i < units; ++i)
      weights.mutable_as<float>()[static_cast<size_t>(b * units + i)] *=
          normalizer[static_cast<size_t>(b)];
  }
  feed.set(kAlignRows, rows);
  feed.set(kAlignWeights, weights);
  const auto used = static_cast<int64_t>(layers(context.layers).size());
  feed.set(kAlignLayers, checked(prepared, kAlignLayers, DType::f32, {batch, used}));
  const std::string scale = weight_array("align");
  feed.set(scale, checked(prepared, scale.c_str(), DType::f32, {}));
  if (in_blocks)
    feed.set(kAlignBlocks, checked(prepared, kAlignBlocks, DType::f32, {batch, units, width}));
  if (!cached()) return;
  for (const int64_t layer : layers(context.layers)) {
    const std::string name = text::kAnchorState + std::to_string(layer); // (batch, seq, hidden)
    const Tensor* states = prepared.find(name);
    if (states == nullptr) {
      fail_with_hint(
          "write its numbers with dllm anchors, change align_layers, or choose another teacher",
          Code::not_found, "teacher rows needs array {}, and the batch lacks it", name);
    }
    feed.set(kTeacherTap + std::to_string(layer),
             teacher_rows(*states, name, targets, rows.as<int32_t>()));
  }
}

Value Align::build(const TermInputs& inputs) const {
  const auto& arrays = inputs.arrays;
  AlignStates states;
  states.weights = arrays.at(kAlignWeights);
  states.layers = arrays.at(kAlignLayers);
  if (const auto blocks = arrays.find(kAlignBlocks); blocks != arrays.end())
    states.blocks = blocks->second;
  const std::vector<int64_t> own = layers(inputs.builder.config().layers);
  const model::ForwardOutputs* teacher = nullptr;
  if (!cached()) {
    teacher =
        &inputs.teacher.forward(inputs.builder, arrays, TeacherInput::clean, arrays.at(kAlignRows));
    if (teacher->taps.size() != inputs.student.taps.size()) {
      fail(Code::invalid_argument,
           "the teacher has {} layers and the model has {}: an alignment compares equal layers",
           teacher->taps.size() - 1, inputs.student.taps.size() - 1);
    }
  }
  for (const int64_t layer : own) {
    const auto at = static_cast<size_t>(layer);
    states.student.push_back(inputs.student.taps[at]);
    states.teacher.push_back(graph::stop_gradient(
        cached() ? arrays.at(kTeacherTap + std::to_string(layer)) : teacher->taps[at]));
    if (states.student.back().shape() == states.teacher.back().shape()) continue;
    fail(Code::invalid_argument,
         "layer {} of the teacher has width {}, and in the model it has {}: an alignment compares "
         "equal widths",
         layer, states.teacher.back().dim(1), states.student.back().dim(1));
  }
  return align_distance(distance_, states);
}

} // namespace

TermEntry term_files::align() {
  std::vector<OptionSpec> rows;
  rows.push_back(option_f64("align", 0.0, 0.0, 1e6,
                            "Weight of the alignment of hidden states with the teacher's, of the "
                            "clean text; 0: none."));
  rows.push_back(option_choice(
      "align_kind", "cosine", {"cosine", "angular", "infonce", "blocks"},
      "Distance of an alignment. cosine: 1 - cos; angular: the angle in radians; infonce: contrast "
      "with the other positions of the row; blocks: cosine of means over align_blocks parts."));
  rows.push_back(option_list("align_layers", {},
                             "Layers of an alignment, such as 7,14,21,28: 0 is the embedding, 1 "
                             "the first layer; all: every one; empty: four at equal distances."));
  rows.push_back(option_choice("align_positions", "visible", {"visible", "supervised", "all"},
                               "Positions of an alignment: of visible tokens, of states that the "
                               "loss of the objective reads, or all."));
  rows.push_back(option_f64("align_margin", 0.0, 0.0, 3.2,
                            "Angle in radians that align_kind angular does not count."));
  rows.push_back(
      option_f64("align_temperature", 0.07, 1e-4, 1e3, "Temperature of align_kind infonce."));
  rows.push_back(
      option_i64("align_blocks", 4, 1, 1 << 16, "Parts of a row for align_kind blocks."));
  rows.push_back(option_f64("align_share", 1.0, 1e-6, 1.0,
                            "Part of the positions that an update compares, drawn by seed."));
  rows.push_back(option_i64("align_layer_count", 0, 0, 1 << 16,
                            "Layers of align_layers that an update compares, drawn by seed; 0: "
                            "all."));
  rows.push_back(option_f64("align_layer_exp", 0.0, -1e3, 1e3,
                            "Exponent e of the layers' weights exp(e * a / n), a = 0 to n - 1; 0: "
                            "equal weights."));
  rows.push_back(option_f64("align_final", -1.0, -1.0, 1e6,
                            "Weight of the alignment from update align_steps on, reached by a "
                            "cosine; -1: the weight stays."));
  rows.push_back(option_i64("align_steps", 0, 0, int64_t{1} << 40,
                            "Updates until align_final is reached; 0: the weight stays."));
  return {.options = std::move(rows),
          .make = new_term<Align>,
          .teacher = TeacherUse::states,
          .is_replayed = true};
}

} // namespace dllm::noise

// castlehill/repr_align: the alignment of hidden states: its distances with gradients, and the
// choice of positions and layers.

#include "bare_graph.h"
#include "graph/ops.h"
#include "handlers.h"
#include "noise/terms/align_distance.h"
#include "noise/terms/align_rows.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>

namespace dllm::parity {
namespace {

// States (tokens, layers, width) of both networks, and what is compared.
struct Compared {
  Tensor student, teacher;
  std::vector<float> layers;
  int64_t blocks = 0; // above 0: the means over this number of blocks
};

struct Result {
  Tensor loss, gradient;
};

Result distance_of(Case& c, const noise::AlignDistance& distance, const Compared& compared) {
  const Shape& shape = compared.student.shape();
  const int64_t tokens = shape[0], layers = shape[1];
  const bool in_blocks = compared.blocks > 0;
  const int64_t units = in_blocks ? compared.blocks : tokens;
  const int64_t used = in_blocks && tokens < units ? 0 : units;
  BareGraph bare("align");
  const graph::Value student = bare.input("student", compared.student),
                     teacher = bare.input("teacher", compared.teacher);
  noise::AlignStates states;
  for (int64_t a = 0; a < layers; ++a) {
    const auto layer = [&](graph::Value x) {
      return graph::reshape(graph::slice_axis(x, 1, a, a + 1), {tokens, shape[2]});
    };
    states.student.push_back(layer(student));
    states.teacher.push_back(layer(teacher));
  }
  Tensor weights(DType::f32, {1, units});
  std::fill_n(weights.mutable_as<float>().begin(), used,
              1.0f / static_cast<float>(std::max<int64_t>(used, 1)));
  states.weights = bare.input("weights", weights);
  states.layers = bare.input("layers", Tensor::from(Shape{1, layers}, compared.layers));
  if (in_blocks) {
    const std::vector<float> means = noise::block_means(tokens, units, tokens);
    states.blocks = bare.input("blocks", Tensor::from(Shape{1, units, tokens}, means));
  }
  const graph::Value loss = noise::align_distance(distance, states);
  bare.graph->output("loss", loss);
  bare.graph->output("gradient", graph::gradients(loss, {student})[0]);
  const std::vector<Tensor> got = bare.run(*c.topic().engine());
  return {got[0], got[1]};
}

std::vector<float> weights_of(int64_t count, double exponent, const std::vector<int64_t>& all = {},
                              const std::vector<int64_t>& used = {}) {
  const auto size = static_cast<size_t>(count);
  const auto is_used = std::make_unique<bool[]>(size);
  for (size_t a = 0; a < size; ++a)
    is_used[a] = all.empty() || std::ranges::find(used, all[a]) != used.end();
  return noise::layer_weights(count, exponent, {is_used.get(), size});
}

noise::AlignDistance distance_of(const Json& p, const char* mode_key) {
  noise::AlignDistance distance;
  const std::string mode = p.value(mode_key, "cosine");
  if (mode == "angular") distance.kind = noise::AlignKind::angular;
  if (mode == "infonce" || p.value("contrastive", false)) distance.kind = noise::AlignKind::infonce;
  distance.margin = p.value("angular_margin", 0.0);
  distance.temperature = p.value("contrastive_temp", 0.07);
  return distance;
}

void check_loss(Case& c, const Json& entry, const Result& got) {
  const Tolerance tolerance = c.topic().tolerance(entry);
  c.close(tolerance, got.loss.as<float>()[0], entry.at("loss").get<double>(), "loss of the case");
  c.close(tolerance, got.loss.as<float>()[0], c.array("loss").as<float>()[0], "loss");
}

void run_distance(Case& c, const Json& entry) {
  const int64_t tokens = entry.at("tokens"), layers = entry.at("layers"), width = entry.at("width");
  const bool in_blocks = entry.at("kind") == "subgoal";
  Compared compared;
  noise::AlignDistance distance;
  if (in_blocks) {
    distance.kind = noise::AlignKind::blocks;
    compared.blocks = entry.at("n_blocks");
    compared.layers = weights_of(layers, 0);
  } else {
    distance = distance_of(entry.at("parameters"), "mode");
    compared.layers = weights_of(layers, entry.at("layer_exp"));
  }
  if (tokens == 0) {
    // Without positions a row has weights of 0, for one state that is not in use.
    const noise::AlignRow row{{}, {}, {}, {}, 0};
    const auto found = noise::aligned_positions(row, noise::AlignPositions::all, 0);
    c.close(c.topic().tolerance(entry), static_cast<double>(found.size()), entry.at("loss"),
            "positions");
    c.close(c.topic().tolerance(entry), 0.0, c.array("loss").as<float>()[0], "loss");
    return;
  }
  compared.student = c.array("student");
  compared.teacher = c.array("teacher");
  c.check(compared.student.shape() == Shape{tokens, layers, width}, "the states' shape");
  const Result got = distance_of(c, distance, compared);
  check_loss(c, entry, got);
  const Tolerance tolerance = c.topic().tolerance(entry);
  if (c.has("grad_student"))
    c.close(tolerance, got.gradient, c.array("grad_student"), "grad_student");
  if (c.has("layer_weights")) {
    c.close(tolerance, Tensor::from(Shape{layers}, compared.layers), c.array("layer_weights"),
            "layer_weights");
  }
}

// Returns the positions that the reference compares. Its rule `visible` looks at the next token.
std::vector<int32_t> positions_of(Case& c, const Json& entry) {
  const Json& p = entry.at("parameters");
  const Tensor labels = c.array("labels"), ids = c.array("input_ids"),
               attention = c.array("attention_mask");
  const int64_t length = labels.shape()[1];
  if (!p.value("visible", false)) {
    return noise::aligned_positions({{}, {}, labels.as<int32_t>(), {}, length},
                                    noise::AlignPositions::supervised, 1);
  }
  Tensor clean = ids.clone();
  const int32_t mask = entry.at("mask_id");
  for (int32_t& id : clean.mutable_as<int32_t>()) id = id == mask ? -1 : id;
  const noise::AlignRow next{ids.as<int32_t>().subspan(1),
                             clean.as<int32_t>().subspan(1),
                             {},
                             attention.as<int32_t>().subspan(1),
                             length - 1};
  return noise::aligned_positions(next, noise::AlignPositions::visible, 0);
}

// Returns the states of the chosen positions and layers, (tokens, layers, width).
Tensor chosen_states(const Tensor& all, const std::vector<int32_t>& positions,
                     const std::vector<int64_t>& layers) {
  const int64_t seq = all.shape()[2], width = all.shape()[3];
  Tensor made(DType::f32,
              {static_cast<int64_t>(positions.size()), static_cast<int64_t>(layers.size()), width});
  auto to = made.mutable_as<float>().begin();
  for (const int32_t position : positions) {
    for (const int64_t layer : layers) {
      const auto from = all.as<float>().begin() + (layer * seq + position) * width;
      to = std::copy_n(from, width, to);
    }
  }
  return made;
}

void run_selection(Case& c, const Json& entry) {
  const Json& p = entry.at("parameters");
  const Tolerance tolerance = c.topic().tolerance(entry);
  const auto all = entry.at("align_layers").get<std::vector<int64_t>>();
  const auto used = entry.at("used_layers").get<std::vector<int64_t>>();
  const auto count = static_cast<int64_t>(all.size());
  c.equal(static_cast<int64_t>(used.size()), p.value("repr_align_num_sample_layers", count),
          "used layers");

  std::vector<int32_t> positions = positions_of(c, entry);
  c.equal(Tensor::from(Shape{static_cast<int64_t>(positions.size())}, positions),
          c.array("selected_positions"), "selected_positions");
  if (p.contains("repr_align_sub_sample_ratio")) {
    const Tensor drawn = c.array("position_permutation");
    const std::vector<int64_t> order(drawn.as<int32_t>().begin(), drawn.as<int32_t>().end());
    positions = noise::share_of(positions, order, p.at("repr_align_sub_sample_ratio"));
    c.check(positions.size() == order.size(), "the number of drawn positions");
  }
  // Layers that are not drawn have the weight 0.
  Compared compared{chosen_states(c.array("student_hidden"), positions, all),
                    chosen_states(c.array("teacher_hidden"), positions, all),
                    weights_of(count, p.value("repr_align_layer_exp", 0.0), all, used)};
  if (c.has("layer_weights")) {
    std::vector<float> own;
    std::ranges::copy_if(compared.layers, std::back_inserter(own), [](float w) { return w > 0; });
    c.close(tolerance, Tensor::from(Shape{static_cast<int64_t>(own.size())}, own),
            c.array("layer_weights"), "layer_weights");
  }
  check_loss(c, entry, distance_of(c, distance_of(p, "repr_align_loss_mode"), compared));
  compared.blocks = entry.at("subgoal_blocks");
  compared.layers = weights_of(count, 0, all, used); // the reference takes the mean here
  const Result blocks = distance_of(c, {noise::AlignKind::blocks}, compared);
  c.close(tolerance, blocks.loss.as<float>()[0], entry.at("subgoal").get<double>(), "subgoal");
  c.close(tolerance, blocks.loss.as<float>()[0], c.array("subgoal").as<float>()[0], "subgoal");
}

} // namespace

void run_repr_align(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      if (entry.at("kind") == "selection")
        run_selection(c, entry);
      else
        run_distance(c, entry);
    });
  }
}

} // namespace dllm::parity

// The shapes of passes, the groups of rows, and predictions as lines of an array.
#include "decode/pass/pass.h"

#include "base/error.h"
#include "graph/engine.h"
#include "graph/ops.h"
#include "model/layers/layer_kind.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace dllm::decode {

namespace {

constexpr int64_t kLeastCapacity = 16, kKeyStep = 64, kWindowStep = 8;
// A program with more positions is not padded to the rows of the whole batch.
constexpr int64_t kMostPadded = 2048;
// Numbers for an engine that compiles fast. kCompileFlops are the flops in the time to compile a
// program. kWeightReads are the positions in the time to read the weights.
constexpr double kCompileFlops = 2e8;
constexpr double kWeightReads = 32;

int64_t padded_rows(int64_t count, int64_t least, int64_t window) {
  int64_t rows = std::max(count, least);
  while (rows > count && rows * window > kMostPadded) rows = std::max(count, rows / 4);
  return round_up(rows, 1);
}

int64_t window_of(const PassRow& row) {
  return row.pass->end - row.pass->begin;
}

// Returns whether a size stays exact because rounding it up to `rung` costs more than compiling.
bool is_exact(const Rounding& rounding, int64_t exact, int64_t rung) {
  return static_cast<double>(rung - exact) > rounding.compile;
}

// Cuts windows, ascending by length, into groups of the lowest total cost. Returns the first window
// of each group and sets `positions` to the total. cost(first, end) is in positions.
template <class Cost>
std::vector<size_t> cheapest_cut(size_t count, Cost cost, int64_t* positions) {
  std::vector<int64_t> best(count + 1, std::numeric_limits<int64_t>::max());
  std::vector<size_t> from(count + 1, 0), firsts;
  best[0] = 0;
  for (size_t end = 1; end <= count; ++end) {
    for (size_t first = 0; first < end; ++first) {
      const int64_t sum = best[first] + cost(first, end);
      if (sum < best[end]) best[end] = sum, from[end] = first;
    }
  }
  for (size_t end = count; end > 0; end = from[end]) firsts.insert(firsts.begin(), from[end]);
  *positions = best[count];
  return firsts;
}

} // namespace

int64_t round_up(int64_t count, int64_t step) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(1, (count + step - 1) / step));
  const uint64_t power = std::bit_ceil(units);
  return static_cast<int64_t>(power >= 4 && units <= power / 4 * 3 ? power / 4 * 3 : power) * step;
}

int64_t head_capacity(int64_t positions) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(positions, kLeastCapacity))));
}

int32_t PassParts::slot(const PassRequest& pass) const {
  const std::vector<std::string>& own = (pass.parts ? *pass.parts : unnamed).names();
  if (own.size() < 2) return 0;
  return static_cast<int32_t>(std::ranges::find(list.names(), own[1]) - list.names().begin());
}

void PassShape::set(const PassSettings& settings) {
  needs = settings.needs;
  bans = !settings.banned.empty();
  defers = !settings.deferred.empty();
  biased = !settings.logit_bias.empty();
}

PassShape pass_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t least_rows, const Rounding& rounding,
                     int64_t count) {
  const PassRequest& first = *rows[0].pass;
  PassShape shape{0, 0, 0, 0, 0, !first.unconditional.empty(), !first.soft.empty()};
  if (first.parts) shape.parts.list = *first.parts;
  const RandomSource* source = rows[0].request->random_source;
  shape.noise = source != nullptr && source->has_noise();
  shape.filters = graph::filters_of_every_program();
  shape.own_bans =
      std::ranges::any_of(rows, [](const PassRow& row) { return !row.banned.empty(); });
  int64_t keys = 0;
  for (const PassRow& row : rows) {
    const PassRequest& pass = *row.pass;
    shape.filters |= graph::filters_on(row.request->settings.filters);
    shape.window = std::max(shape.window, pass.end - pass.begin);
    // The last position of the window attends farthest.
    const int64_t span = pass.span_end < 0 ? row.request->length() : pass.span_end;
    keys = std::max(keys, std::min(row.request->span.limit(pass.end - 1), span));
  }
  if (count < 0) count = static_cast<int64_t>(rows.size());
  const int64_t rung =
      std::min(round_up(shape.window, kWindowStep), std::max(config.max_positions, shape.window));
  const int64_t padded = padded_rows(count, least_rows, rung);
  const bool exact = is_exact(rounding, count * shape.window, padded * rung);
  shape.rows = exact ? count : padded;
  if (!exact) shape.window = rung;
  if (first.cached) {
    shape.keys = std::min(round_up(keys, kKeyStep), cache.capacity);
    shape.cache_rows = cache.rows * cache.capacity;
    shape.saved_rows = cache.saved_rows;
  }
  return shape;
}

Rounding rounding_of(const model::Model& model) {
  if (!model.engine().compiles_fast()) return {};
  double flops = 0; // per position
  for (const model::LayerRun& run : model::layer_runs(model.config()))
    flops += model::layer_cost(model.config(), run).per_token * static_cast<double>(run.count);
  const double compile = kCompileFlops / std::max(1.0, flops);
  const Rounding dear;
  const double launch = std::min(kWeightReads + compile, static_cast<double>(dear.launch));
  return {compile, static_cast<int64_t>(launch)};
}

std::vector<std::vector<size_t>> window_groups(std::span<const PassRow> rows,
                                               const Rounding& rounding) {
  std::map<int64_t, std::vector<size_t>> classes; // rows by the rounded length of their window
  for (size_t i = 0; i < rows.size(); ++i)
    classes[round_up(window_of(rows[i]), kWindowStep)].push_back(i);
  std::vector<std::vector<size_t>> members;
  std::vector<int64_t> rungs, longest, before{0}; // before: number of rows in earlier classes
  for (auto& [rung, indices] : classes) {
    int64_t window = 0;
    for (const size_t i : indices) window = std::max(window, window_of(rows[i]));
    rungs.push_back(rung);
    longest.push_back(window);
    before.push_back(before.back() + static_cast<int64_t>(indices.size()));
    members.push_back(std::move(indices));
  }
  const auto cost = [&](size_t first, size_t end) {
    const int64_t count = before[end] - before[first];
    const int64_t exact = count * longest[end - 1], rung = round_up(count, 1) * rungs[end - 1];
    return (is_exact(rounding, exact, rung) ? exact : rung) + rounding.launch;
  };
  int64_t positions = 0;
  std::vector<size_t> firsts = cheapest_cut(members.size(), cost, &positions);
  // Several groups must save a quarter of the positions, or the cost of compiling if that is less.
  const auto saves = [&](int64_t all) {
    return static_cast<double>(all - positions) >=
           std::min(static_cast<double>(all) / 4, rounding.compile);
  };
  if (!members.empty() && !saves(cost(0, members.size()))) firsts = {0};
  std::vector<std::vector<size_t>> groups(firsts.size());
  for (size_t c = 0, g = 0; c < members.size(); ++c) {
    if (g + 1 < firsts.size() && c == firsts[g + 1]) ++g;
    groups[g].insert(groups[g].end(), members[c].begin(), members[c].end());
  }
  for (std::vector<size_t>& group : groups) std::sort(group.begin(), group.end());
  return groups;
}

using graph::Value;

Value prediction_lines(const PredictionValues& predicted, const PredictionColumns& columns,
                       const std::vector<Value>& more) {
  const int64_t places = predicted.token.shape().count();
  std::vector<Value> parts;
  const auto add = [&](Value x) {
    const Shape shape{places, x.shape().count() / places};
    parts.push_back(graph::reshape(graph::bitcast(x, DType::i32), shape));
  };
  for (const Value& x : {predicted.token, predicted.argmax, predicted.probability,
                         predicted.max_probability, predicted.entropy})
    add(x);
  if (columns.shaped >= 0) {
    for (const Value& x :
         {predicted.shaped_probability, predicted.shaped_margin, predicted.shaped_entropy})
      add(x);
  }
  add(predicted.top_ids);
  add(predicted.top_probs);
  for (const Value& x : more) add(x);
  return graph::concat(parts, 1);
}

bool is_finite(const Prediction& prediction) {
  for (const float rate : prediction.edit.rates) {
    if (!std::isfinite(rate)) return false;
  }
  return prediction.max_probability > 0.0f && std::isfinite(prediction.entropy) &&
         std::isfinite(prediction.probability) && std::isfinite(prediction.shaped_probability);
}

Prediction prediction_of(std::span<const int32_t> line, const PredictionColumns& columns,
                         int64_t position) {
  const auto id = [&](int64_t column) { return line[static_cast<size_t>(column)]; };
  const auto number = [&](int64_t column) { return std::bit_cast<float>(id(column)); };
  Prediction p;
  p.position = position;
  p.token = id(columns.draw);
  p.probability = number(columns.draw_prob);
  p.argmax = id(columns.argmax);
  p.max_probability = number(columns.max_prob);
  p.entropy = number(columns.entropy);
  if (columns.shaped >= 0) {
    p.shaped_probability = number(columns.shaped);
    p.shaped_margin = number(columns.shaped + 1);
    p.shaped_entropy = number(columns.shaped + 2);
  }
  for (int64_t k = 0; k < columns.top; ++k) {
    p.top_ids.push_back(id(columns.top_ids + k));
    p.top_probs.push_back(number(columns.top_probs + k));
  }
  for (int64_t k = 0; k < columns.kept; ++k)
    p.kept.push_back({id(columns.top_ids + k), number(columns.top_probs + k)});
  if (columns.edit >= 0) {
    p.edit = {id(columns.edit), number(columns.edit + 1), {}};
    for (int64_t k = 0; k < 3; ++k) p.edit.rates[k] = number(columns.edit + 2 + k);
  }
  return p;
}

Error not_finite(int64_t position, std::span<const uint8_t> banned,
                 const std::function<std::string()>& cause) {
  const bool open = banned.empty() || std::ranges::find(banned, uint8_t{0}) != banned.end();
  if (!open) {
    return {Code::failed_precondition,
            fmt::format("every token is banned at position {}", position),
            "let suppress name fewer tokens"};
  }
  const std::string operation = cause ? cause() : std::string();
  return {Code::failed_precondition,
          fmt::format("the logits at position {} are not finite{}{}", position,
                      operation.empty() ? "" : ": ", operation),
          "look at the weights: NaN and infinity spread from layer to layer"};
}

} // namespace dllm::decode

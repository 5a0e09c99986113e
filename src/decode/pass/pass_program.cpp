#include "decode/pass/pass_program.h"

#include "base/error.h"
#include "decode/pass/pass.h"
#include "graph/engine.h"
#include "runtime/programs.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>

namespace dllm::decode {
namespace {

// Sets the arguments of `program`. kept: the buffers of its inputs "state:..."; empty: it has none.
void set_arguments(runtime::Arguments& arguments, const graph::Program& program,
                   graph::Engine& engine, std::span<const graph::BufferRef> parameters,
                   std::span<const Batch> feeds, StateBuffers& kept) {
  const auto& inputs = program.graph().inputs();
  arguments.share_parameters(parameters);
  size_t next = 0;
  for (size_t i = 0; i < inputs.size() && !kept.empty(); ++i) {
    if (inputs[i].name.starts_with("state:")) arguments.donate(i, kept.at(next++));
  }
  arguments.upload(engine, feeds, model::request_axes(engine.mesh()));
}

// Returns the first operation that made NaN or infinity, or "" if it cannot be found, for example
// for lack of memory. The step then fails because of its logits. The search throws if the task is
// over.
std::string first_non_finite(const std::shared_ptr<graph::Program>& program, graph::Engine& engine,
                             std::span<const graph::BufferRef> parameters,
                             std::span<const Batch> feeds, DecodeState* cache, const Task* task) {
  StateBuffers kept = cache != nullptr ? cache->take() : StateBuffers{};
  StateBuffers held = kept; // a second holder, so that the program does not write in place
  std::string found;
  try {
    runtime::Arguments arguments(program);
    set_arguments(arguments, *program, engine, parameters, feeds, kept);
    found = arguments.find_non_finite(task);
  } catch (const Error& error) {
    if (error.code() == Code::cancelled || error.code() == Code::deadline_exceeded) throw;
  } catch (const std::exception&) {
  }
  if (cache != nullptr) cache->give_back(std::move(held));
  return found;
}

// Sets the failure of rows with predictions that are not finite, and clears their state. cause:
// returns the first operation that made such a number; called at most once.
void mark_failures(std::vector<RowAnswer>& answers, std::span<const PassRow> rows,
                   const PassSettings& settings, DecodeState& state,
                   const std::function<std::string()>& cause) {
  std::optional<std::string> found;
  const auto known_cause = [&] {
    if (!found) found = cause();
    return *found;
  };
  std::vector<int64_t> lost;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto bad = std::ranges::find_if_not(answers[i].predictions, is_finite);
    if (bad == answers[i].predictions.end()) continue;
    const auto index = static_cast<size_t>(bad - answers[i].predictions.begin());
    answers[i].failure = std::make_shared<const Error>(
        not_finite(bad->position, banned_at(rows[i], settings, index), known_cause));
    if (rows[i].pass->cached) lost.push_back(rows[i].cache_row);
  }
  state.clear(lost);
}

} // namespace

std::vector<graph::BufferRef> Weights::of(const model::PartList& list) const {
  std::vector<graph::BufferRef> chosen;
  chosen.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (list.has(parts[i])) chosen.push_back(buffers[i]);
  }
  return chosen;
}

Weights weights_of(const model::Model& model, const Task* task, const Weights* before) {
  Weights weights;
  weights.buffers = model.params().snapshot(&weights.version, task);
  for (const model::ParamStore::Physical& entry : model.params().physical())
    weights.parts.push_back(entry.spec.part);
  if (before != nullptr && before->version == weights.version) weights.layouts = before->layouts;
  if (weights.layouts == nullptr) weights.layouts = std::make_shared<const PartLayouts>(model);
  return weights;
}

// Adds the mask filler, which belongs to the base whatever adapters a pass reads.
void add_fillers(model::PartList& list, const model::Model& model) {
  for (const std::string& filler : model.parts().fillers()) {
    if (!list.has(filler)) list.add(filler);
  }
}

void set_parts(PassParts& parts, const PassRequest& first, const model::Model& model,
               const Weights& weights, const std::vector<std::string>& others) {
  parts.list = first.parts ? *first.parts : model.reading();
  for (const std::string& other : others) parts.list.add(other);
  add_fillers(parts.list, model);
  parts.layout = weights.layouts->of(parts.list);
}

void set_parts_of_rows(PassParts& parts, std::span<const PassRow> rows, const model::Model& model,
                       const Weights& weights) {
  parts.unnamed = model.reading();
  const auto parts_of = [&](const PassRow& row) -> const model::PartList& {
    return row.pass->parts ? *row.pass->parts : parts.unnamed;
  };
  const bool is_same = std::ranges::all_of(
      rows, [&](const PassRow& row) { return parts_of(row) == parts_of(rows[0]); });
  if (is_same) return set_parts(parts, *rows[0].pass, model, weights);
  parts.is_by_row = true;
  parts.list = model::PartList();
  for (const std::string& adapter : model.parts().adapters()) {
    if (std::ranges::any_of(rows, [&](const PassRow& row) { return parts_of(row).has(adapter); }))
      parts.list.add(adapter);
  }
  add_fillers(parts.list, model);
  parts.layout = "by row: " + weights.layouts->of(parts.list);
}

std::vector<graph::BufferRef> run_pass(const std::shared_ptr<graph::Program>& program,
                                       graph::Engine& engine,
                                       std::span<const graph::BufferRef> parameters,
                                       std::span<const Batch> feeds, DecodeState* cache,
                                       const Task* task) {
  StateBuffers kept = cache != nullptr ? cache->take() : StateBuffers{};
  std::vector<graph::BufferRef> outputs;
  try {
    runtime::Arguments arguments(program);
    set_arguments(arguments, *program, engine, parameters, feeds, kept);
    outputs = arguments.run(task);
  } catch (const graph::StateLost&) {
    throw;
  } catch (...) {
    if (cache != nullptr) cache->give_back(std::move(kept));
    throw;
  }
  if (cache != nullptr) cache->give_back(std::move(kept));
  return outputs;
}

PassProgram::PassProgram(std::shared_ptr<model::Model> model)
    : PassProgram(model, rounding_of(*model)) {}

PassProgram::PassProgram(std::shared_ptr<model::Model> model, const Rounding& rounding)
    : model_(std::move(model)), rounding_(rounding) {}

bool PassProgram::may_differ(const PassRequest& pass, const Weights& weights) const {
  return !model_->engine().runs_ahead() &&
         weights.layouts->may_differ(pass.parts ? *pass.parts : model_->reading());
}

namespace {

// Returns the number of wanted positions of the share with the most of them.
int64_t most_queries(std::span<const PassRow> rows, const PassShares& shares) {
  int64_t most = 0;
  for (int64_t share = 0; share < shares.count(); ++share) {
    int64_t own = 0;
    for (const size_t i : shares.numbers(share)) own += std::ssize(rows[i].pass->positions);
    most = std::max(most, own);
  }
  return most;
}

// Returns 0 if there is no token to the left or it is banned, else `computed`.
float left_of(const PassRow& row, std::span<const uint8_t> banned, int64_t position,
              float computed) {
  if (position == 0) return 0;
  const auto token = static_cast<size_t>(row.request->ids[static_cast<size_t>(position - 1)]);
  return !banned.empty() && banned[token] != 0 ? 0 : computed;
}

// Returns the answers of all rows, from the outputs of build_pass in their order.
std::vector<RowAnswer> answers_of(std::span<const PassRow> rows, const PassSettings& settings,
                                  const PassShares& shares, int64_t capacity,
                                  std::span<const graph::BufferRef> outputs) {
  const Tensor lines = outputs[0]->read();
  const bool defers = !settings.deferred.empty();
  // Probability of the draw among the tokens that are not deferred.
  const Tensor rest = defers ? outputs[1]->read() : Tensor();
  const Tensor left = settings.needs.looks_left ? outputs[defers ? 2 : 1]->read() : Tensor();
  // (places, hidden)
  const Tensor means = settings.needs.conditions ? outputs.back()->read() : Tensor();
  const PredictionColumns columns(settings.needs);
  std::vector<RowAnswer> answers;
  std::vector<size_t> next; // next line of each share
  for (int64_t share = 0; share < shares.count(); ++share)
    next.push_back(static_cast<size_t>(share * capacity));
  for (size_t r = 0; r < rows.size(); ++r) {
    const PassRow& row = rows[r];
    size_t& i = next[static_cast<size_t>(shares.places()[r].share)];
    std::vector<Prediction>& answer = answers.emplace_back().predictions;
    for (const int64_t position : row.pass->positions) {
      const auto width = static_cast<size_t>(columns.count);
      Prediction p =
          prediction_of(lines.as<int32_t>().subspan(i * width, width), columns, position);
      if (defers) {
        const bool deferred = settings.deferred[static_cast<size_t>(p.token)] != 0;
        p.probability = deferred ? 0.0f : rest.as<float>()[i];
      }
      if (left.defined())
        p.left_probability =
            left_of(row, banned_at(row, settings, answer.size()), position, left.as<float>()[i]);
      if (means.defined()) {
        const auto hidden = static_cast<size_t>(means.shape()[1]);
        const auto mean = means.as<float>().subspan(i * hidden, hidden);
        p.mean_embedding.assign(mean.begin(), mean.end());
      }
      answer.push_back(std::move(p));
      ++i;
    }
  }
  return answers;
}

} // namespace

std::vector<RowAnswer> PassProgram::run(std::span<const PassRow> rows, const PassSettings& settings,
                                        DecodeState& state, const Weights& weights,
                                        int64_t capacity, const Task* task, int64_t least_rows) {
  const PassShares shares(rows, state, model_->engine().mesh());
  PassShape shape = pass_shape(model_->config(), rows, state.shape(), shares.part_of(least_rows),
                               rounding_, shares.most_rows());
  shape.set(settings);
  set_parts_of_rows(shape.parts, rows, *model_, weights);
  const std::vector<graph::BufferRef> parameters = weights.of(shape.parts.list);
  const int64_t queries = most_queries(rows, shares);
  const bool reads = queries > 0 || shape.keys == 0;
  if (reads) shape.capacity = head_capacity(std::max(shares.part_of(capacity), queries));
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>(reads ? "denoise" : "fill");
    build_pass(*graph, *model_, shape);
    return model_->engine().compile(std::move(graph));
  });
  const std::shared_ptr<ThreadPool> pool = model_->engine().threads();
  const std::vector<Batch> feeds = shares.feeds([&](int64_t share) {
    return pass_feed(model_->config(), settings, shape, shares.of(share, rows), state,
                     Workers(pool.get(), task));
  });
  const bool cached = shape.keys > 0;
  const std::vector<graph::BufferRef> outputs =
      run_pass(program, model_->engine(), parameters, feeds, cached ? &state : nullptr, task);
  computed_ += shares.count() * shape.positions();
  if (!reads) return std::vector<RowAnswer>(rows.size());
  std::vector<RowAnswer> answers =
      answers_of(rows, settings, shares, shape.capacity,
                 std::span(outputs).subspan(cached ? state.stacks().size() : 0));
  mark_failures(answers, rows, settings, state, [&] {
    return first_non_finite(program, model_->engine(), parameters, feeds, cached ? &state : nullptr,
                            task);
  });
  return answers;
}

} // namespace dllm::decode

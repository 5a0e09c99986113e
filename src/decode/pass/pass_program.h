#pragma once
// PassProgram runs the model on windows of canvases and computes the statistics of chosen
// positions. Shapes are rounded up and counts are data, so a few programs serve all steps of a
// batch.

#include "base/error.h"
#include "decode/cache/decode_state.h"
#include "decode/pass/part_layouts.h"
#include "decode/pass/pass.h"
#include "decode/pass/shares.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "model/model.h"
#include "model/network/builder.h"
#include "runtime/programs.h"
#include "tensor/batch.h"

#include <compare>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// Number of programs of one kind that a decoder keeps.
constexpr size_t kKeptPrograms = 32;

// The parameters of one version of the weights, in the order of the ParamStore.
struct Weights {
  std::vector<graph::BufferRef> buffers;
  std::vector<std::string> parts; // the part of the model that each buffer belongs to
  int64_t version = 0;
  std::shared_ptr<const PartLayouts> layouts;

  // Returns the buffers of the parts in `list`.
  std::vector<graph::BufferRef> of(const model::PartList& list) const;
};

// Returns the weights of the model now. Waits for a training step that has the arrays. `before` may
// be the weights of an earlier call, whose layouts are kept while the version is the same.
Weights weights_of(const model::Model& model, const Task* task = nullptr,
                   const Weights* before = nullptr);
// Sets the parts of a program to the parts of the first row, and to the networks `others`. Without
// parts of a row, they come from Model::reading().
void set_parts(PassParts& parts, const PassRequest& first, const model::Model& model,
               const Weights& weights, const std::vector<std::string>& others = {});

// Sets the parts of a program of these rows. Where they differ, the program has the adapters of all
// rows, and each row has its own. REQUIRES: then PartLayouts::may_differ for the parts of each row.
void set_parts_of_rows(PassParts& parts, std::span<const PassRow> rows, const model::Model& model,
                       const Weights& weights);

// Runs a program once and returns its outputs as runtime::Arguments::run does. feeds: the arrays of
// its inputs by name, one set for each share of the mesh (shares.h). cache: null, or the owner of
// the inputs "state:...", which are written in place and are the first outputs. If the run fails,
// the cache is returned unchanged, or graph::StateLost is thrown; recover() then makes new buffers.
std::vector<graph::BufferRef> run_pass(const std::shared_ptr<graph::Program>& program,
                                       graph::Engine& engine,
                                       std::span<const graph::BufferRef> parameters,
                                       std::span<const Batch> feeds, DecodeState* cache,
                                       const Task* task);

// The key of a pass. Only rows with equal keys may share a pass.
struct PassKey {
  const PassSettings* settings;
  bool may_differ;                      // the parts of the rows may differ
  std::optional<model::PartList> parts; // not set with may_differ
  bool soft, guided, cached;

  PassKey(const PassRequest& pass, const PassSettings& of, bool parts_may_differ)
      : settings(&of), may_differ(parts_may_differ),
        parts(parts_may_differ ? std::nullopt : pass.parts), soft(!pass.soft.empty()),
        guided(!pass.unconditional.empty()), cached(pass.cached) {}
  friend auto operator<=>(const PassKey&, const PassKey&) = default;
};

// The result of a pass for one of its rows.
struct RowAnswer {
  std::vector<Prediction> predictions;  // in the order of PassRequest::positions
  std::shared_ptr<const Error> failure; // null: every prediction is finite
};

// Runs passes and keeps the last compiled programs. One call at a time.
class PassProgram {
public:
  explicit PassProgram(std::shared_ptr<model::Model> model);
  PassProgram(std::shared_ptr<model::Model> model, const Rounding& rounding);
  const Rounding& rounding() const { return rounding_; }
  // Returns whether a row of this pass may share a program with rows of other adapters. On engines
  // with a compiler such a program would multiply all rows by every adapter.
  bool may_differ(const PassRequest& pass, const Weights& weights) const;

  // Runs one pass. The results of a row depend on that row alone. A pass without wanted positions
  // only fills the cache.
  // settings: the settings of all rows. capacity: most positions that a step of this batch
  // predicts, so that its steps share a program. least_rows: as in pass_shape.
  // state: the cache of the rows. If a row fails, its contents are cleared. After an exception all
  // contents are lost.
  std::vector<RowAnswer> run(std::span<const PassRow> rows, const PassSettings& settings,
                             DecodeState& state, const Weights& weights, int64_t capacity,
                             const Task* task, int64_t least_rows = 0);
  // Returns the number of positions of all programs that ran, padding included.
  int64_t computed() const { return computed_; }

private:
  std::shared_ptr<model::Model> model_;
  const Rounding rounding_;
  int64_t computed_ = 0;
  runtime::ProgramCache<PassShape> programs_{kKeptPrograms};
};

// The program of a forward pass, its inputs by name, and the arrays for them. Programs of one pass
// and loops (loop/) share window_states and head_over.

// Returns the input of this name. Adds it if the graph does not have it yet. A loop declares the
// inputs of its state before.
graph::Value input_of(graph::Graph& graph, const std::string& name, DType dtype, Shape shape);
graph::Value input_of(graph::Graph& graph, const std::string& name, const graph::ValueType& type);
// Returns such an input for an array of the rows, which differs between the shares of a mesh.
graph::Value row_input(model::Builder& builder, const std::string& name, DType dtype, Shape shape);

// Name and type of an input that holds a stack of the state, in the order of model::state_stacks.
struct StateInput {
  std::string name;
  graph::ValueType type;
};
std::vector<StateInput> state_inputs(const model::ModelConfig& config,
                                     const model::ParamStore& params, const PassShape& shape);

struct WindowStates {
  graph::Value hidden;      // f32(all_rows * window, hidden)
  model::StateValues state; // the state after the pass; undefined if nothing is cached
};

// Runs the model on the windows. The inputs are ids, positions and limit. The others, where they
// apply, are
//   adapter, slides, query_start, canvas_start, timesteps, soft_*, conditioning, conditioned_at;
//   for a cached pass "state:<stack>" for each stack, write_at and read_at;
//   for saved slots from, to and length.
// timesteps: f32(all_rows), replaces the input of that name. embeddings: f32(all_rows, window,
// hidden), in place of the embeddings of the ids.
WindowStates window_states(model::Builder& builder, const PassShape& shape,
                           graph::Value timesteps = {}, graph::Value embeddings = {});

// Returns the model's head over `hidden` (capacity, hidden), with input banned if shape.bans is
// set. The caller sets count, temperature, filters, uniform and noise.
graph::TokenStatisticsInputs head_over(model::Builder& builder, graph::Value hidden,
                                       const PassShape& shape);
// Returns the same of another head over the tokens of the base, such as one of another part.
graph::TokenStatisticsInputs head_over(model::Builder& builder, const model::Head& head,
                                       graph::Value hidden, const PassShape& shape);

// Returns the statistics of the model's distribution by their names in a prediction.
PredictionValues prediction_values(const graph::TokenStatistics& statistics);

// Builds a pass. Outputs, in this order:
//   the stacks of the state, written in place: cached passes only;
//   answer: the line of each wanted position (pass.h), of every share;
//   rest: with deferred tokens; left: with needs.looks_left;
//   mean_embedding: with needs.conditions.
// With shape.capacity 0 the state is the only output.
void build_pass(graph::Graph& graph, const model::Model& model, const PassShape& shape);

// --- the arrays of a pass ---

// Returns the position whose hidden state predicts `position`: the one before it under shift 1. The
// first position of a window, `begin`, predicts itself, as in Dream and Fast-dLLM.
int64_t predicting(int64_t position, int shift, int64_t begin);

// Adds the inputs of window_states to `feed`, except conditioning, conditioned_at and the state.
// Adds guidance for a guided pass, and banned.
void add_window_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                     const PassShape& shape, std::span<const PassRow> rows,
                     const DecodeState& state);

// Returns (vocab): 1 for tokens that are not drawn at wanted position number `index` of a row.
// Empty: every token may be drawn.
std::span<const uint8_t> banned_at(const PassRow& row, const PassSettings& settings, size_t index);

// Returns the inputs of build_pass for the rows of one share. The workers copy the bans.
Batch pass_feed(const model::ModelConfig& config, const PassSettings& settings,
                const PassShape& shape, std::span<const PassRow> rows, const DecodeState& state,
                const Workers& workers);

} // namespace dllm::decode

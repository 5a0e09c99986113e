// Edit flows (Havasi et al. 2025; ZHZisZZ/dllm). A row is noised by undoing edits, and the model
// learns the rates of the edits that lead back. x_1 is the row. x_0 is a start: the prompt, with or
// without mask tokens after it. Both are aligned with blanks. Time s is in [0, 1), and 0 is the
// start. Each column of x_s is the column of x_1 with probability kappa(s), else the column of x_0.
// With rates r and distributions q of the heads, w = kappa' / (1 - kappa), and E the edits that are
// left from x_s to x_1:
//   loss = mean over rows of w / n (sum over tokens (r_sub + r_del + r_ins)
//                                   - sum over E of log(r_kind q_kind(token))),
//   n = tokens of x_1 (loss_norm sequence) or 1 (batch).
// With insert_order middle and left the columns of a gap are not inserted independently
// (InsertOrder). E then has only the first column of each gap, as often as the gap has columns.
// The array t is the noise level 1 - s, as in other objectives. The decoding policy of the same
// name samples the model. The heads of a token read its own hidden state, whatever the shift of the
// model.

#include "base/error.h"
#include "graph/ops.h"
#include "model/network/edit_heads.h"
#include "noise/loss/token_ce.h"
#include "noise/objectives/table.h"
#include "noise/rows/edit_alignment.h"
#include "noise/rows/times.h"

#include <algorithm>

namespace dllm::noise {
namespace {

// Arrays of a prepared batch. Substitutions are `targets`. `weights` are w / n of every token of
// x_s, and 0 after it.
constexpr const char* kInsertAt = "insert_at"; // i32(batch, width): the token to its left; -1: none
constexpr const char* kInsertIds = "insert_ids"; // i32(batch, width)
// i32(batch, width): the number of edits that the entry represents.
constexpr const char* kInsertCounts = "insert_counts";
constexpr const char* kDeletes = "deletes"; // u8(batch, width)
// Arrays of a feed; capacity = batch * width.
constexpr const char* kInsertRows = "edit_insert_rows";       // i32(capacity)
constexpr const char* kInsertTargets = "edit_insert_targets"; // i32(capacity)
constexpr const char* kInsertWeights = "edit_insert_weights"; // f32(capacity)
constexpr const char* kInsertCount = "edit_insert_count";     // i32()
constexpr const char* kRateWeights = "edit_rate_weights";     // f32(capacity, 1)
constexpr const char* kRateEvents =
    "edit_rate_events"; // f32(capacity, 3): weight times edits of a kind

constexpr float kLeastRate = 1e-12f; // least rate inside of the logarithm

struct EditArrays {
  EditArrays(int64_t batch, int64_t width)
      : ids(DType::i32, {batch, width}), keys(DType::u8, {batch, width}),
        targets(DType::i32, {batch, width}), weights(DType::f32, {batch, width}),
        insert_at(DType::i32, {batch, width}), insert_ids(DType::i32, {batch, width}),
        insert_counts(DType::i32, {batch, width}), deletes(DType::u8, {batch, width}),
        normalizer(DType::f32, {batch}), t(DType::f32, {batch}) {
    std::ranges::fill(targets.mutable_as<int32_t>(), -1);
    std::ranges::fill(insert_at.mutable_as<int32_t>(), -1);
  }
  // Arrays of `raw` that do not belong to its tokens, whose positions have changed, and the arrays
  // of this struct.
  Batch with(const Batch& raw) const {
    Batch made;
    for (const auto& [name, array] : raw) {
      const bool of_tokens = name == "keep" || name == "labels" || name == "segments";
      if (!of_tokens) made.set(name, array);
    }
    made.set("ids", ids);
    made.set("keys", keys);
    made.set("targets", targets);
    made.set("weights", weights);
    made.set(kInsertAt, insert_at);
    made.set(kInsertIds, insert_ids);
    made.set(kInsertCounts, insert_counts);
    made.set(kDeletes, deletes);
    made.set("normalizer", normalizer);
    made.set("t", t);
    return made;
  }
  Tensor ids, keys, targets, weights, insert_at, insert_ids, insert_counts, deletes, normalizer, t;
};

// Returns the tokens of a row of start_ids; negative numbers are padding.
std::vector<int32_t> given_start(const Tensor& starts, int64_t row) {
  const auto width = static_cast<size_t>(starts.shape()[1]);
  std::vector<int32_t> made;
  for (const int32_t id : starts.as<int32_t>().subspan(static_cast<size_t>(row) * width, width))
    if (id >= 0) made.push_back(id);
  return made;
}

InsertOrder order_of(const std::string& name) {
  if (name == "any") return InsertOrder::any;
  return name == "middle" ? InsertOrder::middle : InsertOrder::left;
}

class EditFlow final : public Objective {
public:
  EditFlow(ScheduleRef schedule, const Options& options)
      : Objective(std::move(schedule), options), times_(options_),
        order_(order_of(options_.str("insert_order"))) {
    if (options_.i64("shift") == 1) {
      fail_with_hint("leave shift at -1", Code::invalid_argument,
                     "objective editflow reads a token's own hidden state, shift is 1");
    }
  }
  const std::string& name() const override { return name_; }
  bool needs_mask_id() const override { return options_.str("start") == "masks"; }
  bool spreads_over_rows() const override { return times_.spreads(); }
  model::AttentionKind attention(const model::ModelConfig& config) const override {
    return options_.str("attention") == "auto" ? model::AttentionKind::bidirectional
                                               : Objective::attention(config);
  }
  int shift(const model::ModelConfig&) const override { return 0; }
  Batch prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                     const PrepareContext& context) const override;
  Batch feed_rows(const Batch& prepared, const model::ModelConfig& config) const override;

protected:
  std::vector<std::string> prepared_arrays() const override {
    return {kInsertAt, kInsertIds, kInsertCounts, kDeletes};
  }
  std::vector<std::string> raw_arrays() const override { return {"t"}; }
  Loss build_loss(model::Builder& builder, const LossInputs& inputs) const override;

private:
  std::vector<int32_t> first_row(const TokenRows& rows, int64_t row,
                                 const std::vector<int32_t>& clean,
                                 const PrepareContext& context) const;
  void add_row(EditArrays& made, int64_t row, const Alignment& aligned,
               std::span<float> draws) const;

  std::string name_ = "editflow";
  TimeSampler times_;
  InsertOrder order_;
};

// Returns the text of a row without padding.
std::vector<int32_t> clean_tokens(const TokenRows& rows, int64_t row) {
  std::vector<int32_t> clean;
  int32_t segment = 0;
  for (int64_t i = row * rows.seq; i < (row + 1) * rows.seq; ++i) {
    const auto at = static_cast<size_t>(i);
    const int32_t own = rows.segments.empty() ? 1 : rows.segments[at];
    if (own == 0) continue;
    if (segment != 0 && own != segment) {
      fail_with_hint("set pack = false (--loader.pack false), so that each row has one text",
                     Code::invalid_argument,
                     "row {} holds several texts: objective editflow inserts and deletes tokens, "
                     "which moves the texts after them",
                     row);
    }
    segment = own;
    clean.push_back(rows.ids[at]);
  }
  return clean;
}

// Returns x_0: the given tokens, at least one, then up to start_length masks, as many as the row
// has room for.
std::vector<int32_t> EditFlow::first_row(const TokenRows& rows, int64_t row,
                                         const std::vector<int32_t>& clean,
                                         const PrepareContext& context) const {
  size_t given = 0;
  for (int64_t i = row * rows.seq; given < clean.size(); ++i) {
    if (!rows.segments.empty() && rows.segments[static_cast<size_t>(i)] == 0) continue;
    if (rows.trainable(i)) break;
    ++given;
  }
  given = std::min(std::max<size_t>(given, 1), clean.size());
  std::vector<int32_t> made(clean.begin(), clean.begin() + static_cast<std::ptrdiff_t>(given));
  if (options_.str("start") != "masks") return made;
  if (context.mask_id < 0) {
    fail_with_hint("set the model option mask_token, or start = empty", Code::failed_precondition,
                   "objective editflow with start = masks needs a mask token and the model has "
                   "none");
  }
  const auto room = static_cast<size_t>(rows.seq) - made.size();
  made.resize(made.size() + std::min(static_cast<size_t>(options_.i64("start_length")), room),
              static_cast<int32_t>(context.mask_id));
  return made;
}

// `draws` has one uniform number per column, which becomes the kappa from which on the column is
// the text's.
void EditFlow::add_row(EditArrays& made, int64_t row, const Alignment& aligned,
                       std::span<float> draws) const {
  const int64_t width = made.ids.shape()[1];
  const auto first = static_cast<size_t>(row * width);
  if (static_cast<int64_t>(aligned.to.size()) > width) {
    fail_with_hint("remove mask tokens from the text", Code::invalid_argument,
                   "row {}: the alignment with its start has {} columns, more than {}", row,
                   aligned.to.size(), width);
  }
  const double level = made.t.as<float>()[static_cast<size_t>(row)], time = 1.0 - level;
  const auto kappa = static_cast<float>(1.0 - schedule_->alpha(time));
  order_inserts(aligned, order_, draws);
  std::vector<int32_t> now(aligned.to.size());
  for (size_t column = 0; column < now.size(); ++column)
    now[column] = draws[column] < kappa ? aligned.to[column] : aligned.from[column];

  const auto tokens = std::ranges::count_if(aligned.to, [](int32_t id) { return id != kBlank; });
  const double limit = options_.f64("max_weight");
  double weight = schedule_->weight(time);
  if (limit > 0) weight = std::min(weight, limit);
  if (options_.str("loss_norm") == "sequence")
    weight /= static_cast<double>(std::max<std::ptrdiff_t>(tokens, 1));
  weight *= times_.density(level);
  size_t at = first;
  for (const int32_t id : now) {
    if (id == kBlank) continue;
    made.ids.mutable_as<int32_t>()[at] = id;
    made.keys.mutable_as<uint8_t>()[at] = 1;
    made.weights.mutable_as<float>()[at++] = static_cast<float>(weight);
  }
  size_t inserts = first;
  for (const Edit& edit : edits_between(now, aligned.to, order_)) {
    const size_t place = first + static_cast<size_t>(edit.position);
    if (edit.kind == Edit::Kind::substitute) {
      made.targets.mutable_as<int32_t>()[place] = edit.token;
    } else if (edit.kind == Edit::Kind::remove) {
      made.deletes.mutable_as<uint8_t>()[place] = 1;
    } else {
      made.insert_at.mutable_as<int32_t>()[inserts] = static_cast<int32_t>(edit.position);
      made.insert_counts.mutable_as<int32_t>()[inserts] = static_cast<int32_t>(edit.count);
      made.insert_ids.mutable_as<int32_t>()[inserts++] = edit.token;
    }
  }
  made.normalizer.mutable_as<float>()[static_cast<size_t>(row)] = tokens > 0 ? 1.0f : 0.0f;
}

// Optional arrays of a batch are start_ids i32(batch, any), t, u_t and u_mask. start_ids has x_0 of
// every row and negative numbers after its end. u_mask has the uniform number of each column.
Batch EditFlow::prepare_rows(const Batch& batch, uint64_t seed, int64_t step,
                             const PrepareContext& context) const {
  const TokenRows rows = token_rows(batch, context.vocab, false);
  const Tensor* start = batch.find("start_ids");
  if (start != nullptr && (start->shape().rank() != 2 || start->shape()[0] != rows.batch)) {
    fail(Code::invalid_argument, "array start_ids has shape {}, expected ({}, any)",
         start->shape().text(), rows.batch);
  }
  const Tensor starts = start != nullptr ? start->to(DType::i32) : Tensor{};
  if (start != nullptr && context.vocab > 0)
    check_between("start_ids", starts, INT32_MIN, context.vocab - 1, "the vocabulary");
  // The longest alignment fits, because both rows begin with the same token or with a pair of
  // tokens.
  const int64_t width = rows.seq + (start != nullptr ? starts.shape()[1] : 0);
  EditArrays made(rows.batch, width);
  const std::pair<int64_t, int64_t> global = batch.global_rows(rows.batch);
  std::vector<float> draws = times_.draws(rows.batch, 1, global, seed, step);
  inject_draws(batch, "u_t", draws);
  std::vector<float> levels;
  for (const float draw : draws) levels.push_back(times_.time(draw));
  inject_draws(batch, "t", levels);
  std::ranges::copy(levels, made.t.mutable_as<float>().begin());
  std::vector<float> columns = mask_draws(rows.batch, width, global.first, seed, step);
  inject_draws(batch, "u_mask", columns);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const std::vector<int32_t> clean = clean_tokens(rows, b);
    const std::vector<int32_t> first =
        start == nullptr ? first_row(rows, b, clean, context) : given_start(starts, b);
    if (clean.empty() != first.empty())
      fail(Code::invalid_argument, "row {}: one of start_ids and ids is empty", b);
    add_row(made, b, align(first, clean),
            std::span(columns).subspan(static_cast<size_t>(b * width)));
  }
  Batch prepared = made.with(batch);
  set_timesteps(prepared, made.t, context);
  return prepared;
}

Batch EditFlow::feed_rows(const Batch& prepared, const model::ModelConfig& config) const {
  model::need_edit_heads(config, "objective editflow");
  Batch made = Objective::feed_rows(prepared, config);
  const Shape shape = made.at("ids").shape();
  const int64_t width = shape[1], capacity = shape.count();
  const auto array = [&](const char* name, DType dtype) {
    const Tensor& found = prepared.at(name);
    if (found.shape() != shape)
      fail(Code::invalid_argument, "array {} has shape {}, expected {}", name, found.shape().text(),
           shape.text());
    return found.to(dtype);
  };
  const Tensor at = array(kInsertAt, DType::i32), ids = array(kInsertIds, DType::i32),
               counts = array(kInsertCounts, DType::i32), deletes = array(kDeletes, DType::u8),
               targets = array("targets", DType::i32), weights = array("weights", DType::f32);
  check_between(kInsertAt, at, -1, width - 1, "the row");
  check_between(kInsertIds, ids, 0, config.vocab_size - 1, "the vocabulary");
  check_between(kInsertCounts, counts, 0, width, "the row");
  Tensor rows(DType::i32, {capacity}), tokens(DType::i32, {capacity}),
      insert_weights(DType::f32, {capacity}), events(DType::f32, {capacity, model::kEditRates});
  std::ranges::fill(tokens.mutable_as<int32_t>(), -1);
  const auto event = [&](int64_t token, int64_t kind, float count) {
    const float weight = count * weights.as<float>()[static_cast<size_t>(token)];
    events.mutable_as<float>()[static_cast<size_t>(token * model::kEditRates + kind)] += weight;
    return weight;
  };
  size_t count = 0;
  for (int64_t index = 0; index < capacity; ++index) {
    const auto place = static_cast<size_t>(index);
    if (targets.as<int32_t>()[place] >= 0) event(index, 0, 1);
    if (deletes.as<uint8_t>()[place] != 0) event(index, 1, 1);
    if (at.as<int32_t>()[place] < 0) continue;
    const int64_t token = index / width * width + at.as<int32_t>()[place];
    rows.mutable_as<int32_t>()[count] = static_cast<int32_t>(token);
    tokens.mutable_as<int32_t>()[count] = ids.as<int32_t>()[place];
    insert_weights.mutable_as<float>()[count++] =
        event(token, 2, static_cast<float>(counts.as<int32_t>()[place]));
  }
  made.set(kInsertRows, rows);
  made.set(kInsertTargets, tokens);
  made.set(kInsertWeights, insert_weights);
  made.set(kInsertCount, Tensor::scalar(static_cast<int32_t>(count)));
  made.set(kRateWeights, weights.reshaped({capacity, 1}));
  made.set(kRateEvents, events);
  return made;
}

struct EditTokens {
  graph::Value rows, targets, weights, count;
};

// Adds the cross entropy of the tokens of one kind of edit.
void add_tokens(Loss& loss, model::Builder& builder, const char* head_name, graph::Value hidden,
                const EditTokens& tokens) {
  const graph::Value nll = model::cross_entropy(
      builder.head(head_name), graph::take(hidden, tokens.rows), tokens.targets, tokens.count);
  loss.sum = graph::add(loss.sum, graph::sum(graph::multiply(nll, tokens.weights), {0}));
  loss.parts.push_back({std::string("nll_") + head_name, graph::sum(graph::stop_gradient(nll), {0}),
                        graph::convert(tokens.count, DType::f32)});
}

Loss EditFlow::build_loss(model::Builder& builder, const LossInputs& inputs) const {
  graph::Graph& graph = builder.graph();
  const graph::Value hidden = builder.forward(inputs.tokens).hidden;
  const graph::Value flat = graph::reshape(hidden, {hidden.dim(0) * hidden.dim(1), hidden.dim(2)});
  const graph::Value rates = model::edit_rates(builder, flat); // (capacity, 3)
  const graph::Value all = graph::multiply(rates, inputs.all.at(kRateWeights));
  const graph::Value logs = graph::log(graph::maximum(rates, graph::scalar(graph, kLeastRate)));
  Loss loss;
  loss.sum =
      graph::sum(graph::subtract(all, graph::multiply(logs, inputs.all.at(kRateEvents))), {0, 1});
  loss.normalizer = graph::sum(inputs.normalizer, {0});
  add_tokens(loss, builder, model::kSubstituteHead, flat,
             {inputs.head_rows, inputs.head_targets, inputs.head_weights, inputs.head_count});
  add_tokens(loss, builder, model::kInsertHead, flat,
             {inputs.all.at(kInsertRows), inputs.all.at(kInsertTargets),
              inputs.all.at(kInsertWeights), inputs.all.at(kInsertCount)});
  return loss;
}

} // namespace

ObjectiveEntry objective_files::editflow() {
  std::vector<OptionSpec> keys = shared_objective_options();
  for (OptionSpec& row : time_options()) keys.push_back(std::move(row));
  keys.push_back(option_choice("start", "masks", {"masks", "empty"},
                               "Start of a row after the given tokens (at least the first token): "
                               "mask tokens, or nothing."));
  keys.push_back(
      option_i64("start_length", 64, 0, 1 << 24,
                 "Number of mask tokens of a start; it is cut to the length of the row."));
  keys.push_back(option_choice(
      "insert_order", "any", {"any", "middle", "left"},
      "Which token of a gap is inserted first. any: any of them, so that a place names all of them "
      "at once (edit flows as published); middle: the middle one; left: the left one."));
  keys.push_back(
      option_f64("max_weight", 20.0, 0.0, 1e9, "Upper limit of kappa' / (1 - kappa), 0: none."));
  keys.push_back(option_choice("loss_norm", "sequence", {"sequence", "batch"},
                               "What the loss of a row is divided by besides the rows: its "
                               "tokens, or nothing."));
  return {"editflow",
          "kappa_cubic",
          std::move(keys),
          new_objective<EditFlow>,
          {.rows = RowKind::edited,
           .packs = false,
           .shift = 0,
           .heads = "edit",
           .policy = "editflow",
           .sample = R"({"policy": "editflow", "steps": 16})"}};
}

} // namespace dllm::noise

#include "decode/trajectory/extractor.h"

#include "base/error.h"
#include "base/log.h"
#include "model/content_digest.h"
#include "noise/objective.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::decode {

// A row with hidden tokens. `request` has the canvas, which `state` repeats.
struct TrajectoryExtractor::Open {
  const TrajectoryRow* row;
  RevealState state;
  Request request;
  PassRequest pass;
  std::vector<int64_t> wanted;
  std::vector<Prediction> predictions; // of `wanted`
  text::Trajectory* made;
};

const Schema& trajectory_schema() {
  static const Schema schema(
      "trajectories",
      {option_choice("method", "scheduled", reveal_rule_names(),
                     "which tokens a row shows next: scheduled (lowest entropy, ceil(n / steps) of "
                     "them), entropy (below threshold), left_to_right, block_wise"),
       option_choice("lines", "compact", {"compact", "rows"},
                     "form of the lines; compact: when each token is shown; rows: all token ids, "
                     "as castlehill writes them"),
       option_i64(
           "steps", 0, 0, 1 << 20,
           "rows after the first one; 0: 32 for scheduled, 16 for entropy and left_to_right"),
       option_f64("threshold", 0, 0, 1e6,
                  "entropy in nats below which a token is shown; default: 1.5 for entropy, 0 for "
                  "block_wise, which then shows one token in each row"),
       option_i64("block_length", 32, 1, 1 << 24, "tokens of a block of block_wise"),
       option_choice("fill", "auto", {"auto", "data", "model"},
                     "what a row shows: the token of the data, or the one that the model predicts; "
                     "auto: data for scheduled, model for entropy and block_wise"),
       option_f64("context", 0.25, 0, 1,
                  "part of a row that counts as its prompt when the data gives none"),
       option_i64("least", 8, 1, 1 << 24, "rows with fewer tokens are left out"),
       option_i64("length", 1024, 1, 1 << 24, "tokens of a row; longer rows are cut at the end"),
       option_choice("attention", "auto", {"auto", "causal", "bidirectional", "block_causal"},
                     "attention of the teacher; auto: option attention of the model, else as a "
                     "masked objective trains it"),
       option_i64("shift", -1, -1, 1,
                  "1: the logits before a token predict it; -1: the model's own, and 1 for a "
                  "next-token model"),
       option_bool("suppress_mask", true, "the model never predicts the mask token"),
       option_i64("batch", 8, 1, 1 << 16, "rows of a pass"),
       option_i64("limit", 0, 0, int64_t{1} << 53, "most new rows of this call; 0: all"),
       option_bool("fresh", false, "remove the lines that the file has, and begin again")});
  return schema;
}

namespace {

AttentionSpan span_of(const model::Model& model, const Options& options) {
  using model::AttentionKind;
  const model::ModelConfig& config = model.config();
  AttentionKind kind = model::attention_from_name(options.str("attention"));
  const bool keeps = model.origin().attention_chosen;
  if (kind == AttentionKind::automatic &&
      (keeps || config.attention == AttentionKind::block_causal))
    kind = config.attention;
  if (kind == AttentionKind::causal) return {1, 0, false};
  if (kind != AttentionKind::block_causal) return {};
  if (config.block_length <= 0) {
    fail_with_hint("set attention to bidirectional, or block_length in the model's config.json",
                   Code::failed_precondition,
                   "block_causal attention needs a block length, and the model has none");
  }
  return {config.block_length, 0, false};
}

// Fails for a model that does not read mask tokens. Warns of one that was not trained on them.
void check_teacher(const model::ModelConfig& config) {
  using noise::RowKind;
  const std::string& objective = config.objective;
  const auto known = noise::objective_names();
  const bool is_known = std::ranges::find(known, objective) != known.end();
  const RowKind rows = is_known ? noise::objective_facts(objective).rows : RowKind::masked;
  if (rows == RowKind::replaced || rows == RowKind::edited || rows == RowKind::canvas ||
      rows == RowKind::vectors) {
    fail_with_hint("choose a model of masked diffusion, such as mdlm, or method left_to_right",
                   Code::failed_precondition,
                   "the teacher was trained with {}, and such a model does not fill mask tokens",
                   objective);
  }
  if (rows != RowKind::clean && !(objective.empty() && config.next_token)) return;
  log(LogLevel::warn,
      "warning: the teacher predicts the next token and was not trained to fill masks: train it "
      "with a masked objective first, or what it reveals first means little");
}

int shift_of(const model::Model& model, const Options& options) {
  const int64_t shift = options.i64("shift");
  if (shift >= 0) return static_cast<int>(shift);
  const bool adapts = model.config().next_token && !model.origin().shift_chosen;
  return adapts ? 1 : model.config().shift;
}

} // namespace

TrajectoryExtractor::TrajectoryExtractor(std::shared_ptr<model::Model> model,
                                         const Options& options, int32_t mask_id)
    : model_(std::move(model)), rule_(make_reveal_rule(options)), mask_(mask_id) {
  const std::string& fill = options.str("fill");
  own_tokens_ = fill == "auto" ? rule_->shows_predictions() : fill == "model";
  if (!rule_->reads_model()) return;
  if (model_ == nullptr)
    fail(Code::invalid_argument, "method {} needs a model", options.str("method"));
  check_teacher(model_->config());
  settings_.shift = shift_of(*model_, options); // before the model has a mask token
  span_ = span_of(*model_, options);
  mask_ = static_cast<int32_t>(model_->ensure_mask_token());
  if (options.boolean("suppress_mask")) {
    settings_.banned.assign(static_cast<size_t>(model_->config().vocab_size), 0);
    settings_.banned[static_cast<size_t>(mask_)] = 1;
  }
  program_ = std::make_unique<PassProgram>(model_);
  state_ = std::make_unique<DecodeState>(model_);
}

Json TrajectoryExtractor::teacher(const Task* task) const {
  if (!rule_->reads_model()) return nullptr;
  const std::string attention = span_.block == 1  ? "causal"
                                : span_.block > 1 ? fmt::format("blocks of {}", span_.block)
                                                  : "bidirectional";
  return {{"weights", model::content_digest(*model_, task)},
          {"arithmetic", model_->engine().describe().value("arithmetic", "f32")},
          {"attention", attention},
          {"shift", settings_.shift}};
}

Request TrajectoryExtractor::request_of(const TrajectoryRow& row) const {
  const model::ModelConfig& config = model_->config();
  if (std::ssize(row.ids) > config.position_limit()) {
    fail_with_hint(fmt::format("set length to {}", config.position_limit()),
                   Code::failed_precondition, "row {} has {} tokens, the model has {} positions",
                   row.idx, row.ids.size(), config.position_limit());
  }
  for (const int32_t id : row.ids) {
    if (id >= 0 && id < config.vocab_size) continue;
    fail_with_hint("open the data with the tokenizer of the model", Code::invalid_argument,
                   "row {} has the token {}, the model has {}", row.idx, id, config.vocab_size);
  }
  Request request;
  request.number = row.idx;
  request.span = span_;
  request.ids = row.ids;
  request.states.assign(row.ids.size(), State::fixed);
  return request;
}

std::vector<text::Trajectory> TrajectoryExtractor::run(std::span<const TrajectoryRow> rows,
                                                       const Task* task) {
  std::vector<text::Trajectory> made(rows.size());
  std::vector<Open> all(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const TrajectoryRow& row = rows[r];
    Open& open = all[r];
    open.row = &row;
    open.made = &made[r];
    if (rule_->reads_model()) open.request = request_of(row);
    open.state.ids = row.ids;
    open.state.order.assign(row.ids.size(), 0);
    // No state predicts the first token under a shift.
    for (size_t i = settings_.shift > 0 ? 1 : 0; i < row.ids.size(); ++i) {
      if (row.given[i] != 0) continue;
      open.state.ids[i] = mask_;
      open.state.order[i] = -1;
      ++open.state.hidden_first;
    }
    const auto hidden = std::ranges::find(open.state.order, -1);
    open.state.first = hidden - open.state.order.begin();
  }
  const Weights weights = rule_->reads_model() ? weights_of(*model_, task) : Weights{};
  for (;;) {
    check_task(task);
    std::vector<Open*> open;
    for (Open& row : all) {
      row.wanted = rule_->wanted(row.state);
      if (!row.wanted.empty()) open.push_back(&row);
    }
    if (open.empty()) break;
    if (rule_->reads_model()) predict(open, weights, task);
    for (Open* row : open) reveal(*row);
  }
  for (Open& row : all) {
    row.made->idx = row.row->idx;
    row.made->prompt = row.state.first;
    row.made->order = std::move(row.state.order);
    if (own_tokens_) row.made->tokens = std::move(row.state.ids);
  }
  return made;
}

// Predicts the wanted positions of these rows. Rows of unlike length are in several passes.
void TrajectoryExtractor::predict(std::span<Open*> open, const Weights& weights, const Task* task) {
  std::vector<PassRow> rows;
  int64_t positions = 0;
  for (Open* row : open) {
    row->request.ids = row->state.ids;
    row->pass = {};
    row->pass.end = row->state.length();
    row->pass.positions = row->wanted;
    row->pass.time = static_cast<double>(row->state.hidden(0, row->state.length()).size()) /
                     static_cast<double>(row->state.hidden_first);
    positions += std::ssize(row->wanted);
    rows.push_back({&row->request, &row->pass});
  }
  capacity_ = std::max(capacity_, positions);
  for (const std::vector<size_t>& group : window_groups(rows, program_->rounding())) {
    std::vector<PassRow> own;
    for (const size_t i : group) own.push_back(rows[i]);
    std::vector<RowAnswer> answers =
        program_->run(own, settings_, *state_, weights, capacity_, task);
    for (size_t i = 0; i < group.size(); ++i) {
      if (answers[i].failure != nullptr) {
        const Error& why = *answers[i].failure;
        throw Error(why.code(), fmt::format("row {}: {}", open[group[i]]->row->idx, why.text()),
                    why.hint());
      }
      open[group[i]]->predictions = std::move(answers[i].predictions);
    }
  }
}

void TrajectoryExtractor::reveal(Open& row) const {
  std::vector<float> entropies;
  for (const Prediction& prediction : row.predictions) entropies.push_back(prediction.entropy);
  const bool ends = rule_->ends_after_next(row.state);
  for (const size_t i : rule_->choose(row.state, row.wanted, entropies)) show(row, i);
  ++row.state.rows;
  if (!ends) return;
  for (size_t i = 0; i < row.wanted.size(); ++i) {
    if (row.state.order[static_cast<size_t>(row.wanted[i])] < 0) show(row, i);
  }
  ++row.state.rows;
}

void TrajectoryExtractor::show(Open& row, size_t wanted) const {
  const auto at = static_cast<size_t>(row.wanted[wanted]);
  row.state.order[at] = static_cast<int32_t>(row.state.rows);
  row.state.ids[at] = own_tokens_ ? row.predictions[wanted].argmax : row.row->ids[at];
}

} // namespace dllm::decode

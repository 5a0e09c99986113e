// LLaDA2.2 (inclusionAI 2026; SGLang, joint_threshold_indel). It has LLaDA2.1's blocks and edits,
// and two tokens that change the layout of a block. A position that is predicted to be the delete
// token is removed. A position that is predicted to be the split token gets a mask before its old
// token. The block keeps its length. A block that returns to an earlier state writes another token
// there.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace dllm::decode {
namespace {

// Likeliest tokens that a prediction lists, to replace a token that is not allowed.
constexpr int64_t kAlternatives = 32;

struct InsertDeleteSettings {
  double threshold = 0.5, edit_threshold = 0;
  int64_t post_steps = 16; // steps after the original masks are filled
  int32_t mask_id = 0, delete_id = -1, split_id = -1;
};

// One position of the block that was not given.
struct Cell {
  int32_t id = 0;
  float probability = 0;
  bool original = false; // it has been a mask since the block began
};

class InsertDelete final : public UnmaskingRule {
public:
  explicit InsertDelete(const InsertDeleteSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<InsertDelete>(*this);
  }

  void start(const StepContext& moment) override {
    updates_ = post_steps_ = 0;
    done_ = false;
    seen_.clear();
    tried_.clear();
    cells_.clear();
    for (const int64_t position : wanted(moment)) {
      const auto at = static_cast<size_t>(position);
      cells_.push_back({moment.request.ids[at], moment.request.confidence[at],
                        moment.request.is_open(position)});
    }
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    std::vector<int64_t> positions;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.request.states[static_cast<size_t>(i)] != State::fixed) positions.push_back(i);
    }
    return positions;
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    take_canvas(moment.request, predictions);
    const std::vector<Cell> before = cells_;
    Step step = plan(predictions, moment.end - moment.begin);
    if (step.write.empty()) {
      done_ = true;
    } else {
      without_repeats(step, predictions);
      write(step);
      done_ = step.final;
    }
    return changes(moment.request, before, predictions);
  }

  bool block_ended(const StepContext& moment) const override {
    // A step of the host does not look at decided tokens again.
    return moment.chosen ? done_ : moment.open.empty();
  }

  // waiting: for each cell, whether it is a mask of the block's start.
  Json memory() const override {
    Json waiting = Json::array();
    for (size_t i = 0; i < cells_.size(); ++i) waiting.push_back(is_mask(i) && cells_[i].original);
    return {{"post_steps", post_steps_}, {"waiting", waiting}};
  }

private:
  struct Step {
    bool final = false; // the block ends after this step
    std::vector<size_t> write;
    std::vector<Token> tokens; // one per cell
  };

  bool is_mask(size_t i) const { return cells_[i].id == settings_.mask_id; }
  bool changes_layout(int32_t id) const {
    return id == settings_.mask_id || id == settings_.delete_id || id == settings_.split_id;
  }

  // Takes over tokens that the host wrote since the last step.
  void take_canvas(const Request& request, std::span<const Prediction> predictions) {
    for (size_t i = 0; i < cells_.size(); ++i) {
      const int32_t id = request.ids[static_cast<size_t>(predictions[i].position)];
      if (id == cells_[i].id) continue;
      cells_[i] = {id, request.confidence[static_cast<size_t>(predictions[i].position)], false};
    }
  }

  // Returns the likeliest listed token that is not refused. Returns the prediction itself if all
  // are refused.
  template <class Refused> static Token likeliest(const Prediction& p, Refused refused) {
    for (size_t k = 0; k < p.top_ids.size(); ++k) {
      if (!refused(p.top_ids[k])) return {p.top_ids[k], p.top_probs[k]};
    }
    return {p.token, p.probability};
  }

  // Returns which cells are written, and with which tokens.
  Step plan(std::span<const Prediction> predictions, int64_t block) {
    Step step;
    std::vector<size_t> masks;
    int64_t originals = 0;
    for (size_t i = 0; i < cells_.size(); ++i) {
      step.tokens.push_back({predictions[i].token, predictions[i].probability});
      if (!is_mask(i)) continue;
      masks.push_back(i);
      originals += cells_[i].original ? 1 : 0;
    }
    ++updates_;
    post_steps_ += originals == 0 ? 1 : 0;
    const int64_t budget = settings_.post_steps;
    step.final = (budget > 0 ? post_steps_ >= budget : originals == 0) || updates_ > block + budget;
    for (const size_t i : masks) {
      if (step.final || !cells_[i].original || step.tokens[i].id != settings_.mask_id) continue;
      step.tokens[i] =
          likeliest(predictions[i], [&](int32_t id) { return id == settings_.mask_id; });
    }
    std::vector<size_t> fill = filled(step, masks, originals);
    const auto originals_in = [&](const std::vector<size_t>& cells) {
      return std::count_if(cells.begin(), cells.end(),
                           [&](size_t i) { return cells_[i].original; });
    };
    if (budget == 0 && originals > 0 && originals_in(fill) == originals) {
      step.final = true;
      fill = masks;
    }
    for (size_t i = 0; i < cells_.size(); ++i) {
      const bool fills = std::find(fill.begin(), fill.end(), i) != fill.end();
      const bool edits = !is_mask(i) && step.tokens[i].probability > settings_.edit_threshold &&
                         step.tokens[i].id != cells_[i].id;
      if (fills || edits) step.write.push_back(i);
    }
    return step;
  }

  // Returns the masks above the threshold, but at least one more than the masks that were inserted.
  std::vector<size_t> filled(const Step& step, const std::vector<size_t>& masks,
                             int64_t originals) const {
    if (step.final || originals == 0) return masks;
    const int64_t least = 1 + static_cast<int64_t>(masks.size()) - originals;
    std::vector<size_t> sure;
    std::vector<double> scores;
    for (const size_t i : masks) {
      scores.push_back(step.tokens[i].probability);
      if (step.tokens[i].probability > settings_.threshold) sure.push_back(i);
    }
    if (static_cast<int64_t>(sure.size()) >= least) return sure;
    std::vector<size_t> best;
    for (const size_t i : largest(scores, least)) best.push_back(masks[i]);
    return best;
  }

  // Replaces tokens of a step. The last step may not write a token that changes the layout. If the
  // block returned to an earlier state, its least probable new token becomes one not tried before.
  void without_repeats(Step& step, std::span<const Prediction> predictions) {
    std::vector<int32_t> ids;
    for (const Cell& cell : cells_) ids.push_back(cell.id);
    const bool repeats = !seen_.insert(ids).second;
    if (step.final) {
      for (const size_t i : step.write) {
        if (changes_layout(step.tokens[i].id))
          step.tokens[i] =
              likeliest(predictions[i], [&](int32_t id) { return changes_layout(id); });
      }
      return;
    }
    if (!repeats) return;
    size_t weakest = cells_.size();
    for (const size_t i : step.write) {
      if (step.tokens[i].id == cells_[i].id) continue;
      if (weakest == cells_.size() || step.tokens[i].probability < step.tokens[weakest].probability)
        weakest = i;
    }
    if (weakest == cells_.size()) return;
    const std::set<int32_t>& tried = tried_[weakest];
    step.tokens[weakest] = likeliest(predictions[weakest], [&](int32_t id) {
      return tried.contains(id) || (cells_[weakest].original && id == settings_.mask_id);
    });
  }

  void write(const Step& step) {
    const size_t count = cells_.size();
    std::vector<Cell> next;
    for (size_t i = 0; i < count; ++i) {
      const bool written = std::find(step.write.begin(), step.write.end(), i) != step.write.end();
      const Token token = step.tokens[i];
      if (written) tried_[i].insert(token.id);
      if (!written) {
        next.push_back(cells_[i]);
      } else if (token.id == settings_.split_id) {
        next.push_back({settings_.mask_id, 0, false});
        next.push_back(cells_[i]);
      } else if (token.id != settings_.delete_id) {
        const bool stays = token.id == settings_.mask_id && cells_[i].original;
        next.push_back({token.id, token.probability, stays});
      }
    }
    next.resize(count, {settings_.mask_id, 0, false});
    cells_ = std::move(next);
  }

  Choice changes(const Request& request, const std::vector<Cell>& before,
                 std::span<const Prediction> predictions) const {
    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < cells_.size(); ++i) {
      const int64_t position = predictions[i].position;
      if (is_mask(i)) {
        if (!request.is_open(position)) choice.remask.push_back(position);
      } else if (cells_[i].id != before[i].id) {
        choice.decided.push_back(i);
        choice.tokens.push_back({cells_[i].id, cells_[i].probability});
      }
    }
    return choice;
  }

  InsertDeleteSettings settings_;
  std::vector<Cell> cells_;
  int64_t updates_ = 0, post_steps_ = 0;
  bool done_ = false;
  std::set<std::vector<int32_t>> seen_;       // earlier states of the block
  std::map<size_t, std::set<int32_t>> tried_; // tokens that were written, by cell
};

int32_t layout_token(const PolicySetup& setup, const char* key, int64_t own) {
  const int32_t chosen = token_option(setup, key);
  return chosen >= 0 ? chosen : static_cast<int32_t>(own);
}

std::unique_ptr<UnmaskingRule> insert_delete_rule(const PolicySetup& setup) {
  InsertDeleteSettings settings;
  settings.threshold = as_f32(setup.f64("threshold"));
  settings.edit_threshold = as_f32(setup.f64("edit_threshold"));
  settings.post_steps = setup.i64("max_post_steps");
  settings.mask_id = setup.mask_id;
  settings.delete_id = layout_token(setup, "delete_token", setup.config.delete_token_id);
  settings.split_id = layout_token(setup, "split_token", setup.config.split_token_id);
  return std::make_unique<InsertDelete>(settings);
}

BlockwiseSettings insert_delete_blocks(const PolicySetup& setup) {
  BlockwiseSettings settings = blockwise_settings(setup);
  settings.grid_at_zero = true;
  settings.block_length = setup.span.block;
  settings.eos = token_option(setup, "eos");
  return settings;
}

class Llada22Policy final : public BlockwisePolicy {
public:
  explicit Llada22Policy(const PolicySetup& setup)
      : BlockwisePolicy(setup, insert_delete_blocks(setup), insert_delete_rule) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    const auto open = std::find(request.states.begin(), request.states.end(), State::masked);
    const auto given = std::find(open, request.states.end(), State::fixed);
    if (given != request.states.end())
      fail_with_hint(
          "use policy llada2 for a canvas with holes", Code::invalid_argument,
          "policy llada22 moves tokens, but position {} is given and comes after open positions",
          given - request.states.begin());
    request.span = {settings().block_length, 0, false};
    return BlockwisePolicy::begin(request);
  }
  PredictionNeeds needs() const override { return {.top = kAlternatives}; }
};

std::unique_ptr<Policy> make_llada22(const PolicySetup& setup) {
  return std::make_unique<Llada22Policy>(block_causal_setup(setup));
}

std::vector<OptionSpec> llada22_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, counted from the canvas's first; not set: the block length "
                 "of a block_causal model."),
      option_f64("threshold", 0.5, 0, 1,
                 "A step fills every mask whose token is more probable than this, at least one "
                 "more than the masks that it inserts."),
      option_f64("edit_threshold", 0, 0, 1,
                 "A decided token of the block is replaced when another is more probable than "
                 "this."),
      option_i64("max_post_steps", 16, 0, 1 << 20,
                 "Most steps of a block after the last of its first masks."),
      option_i64("delete_token", -1, -1, 1 << 30,
                 "Token id: a position predicted to be it is removed; -1: the model's own."),
      option_i64("split_token", -1, -1, 1 << 30,
                 "Token id: a position predicted to be it gets a mask in front; -1: the model's "
                 "own."),
      option_bool("suppress_mask", false, "Never predict the mask token."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, and open positions after it become "
                 "this token; -1: none."),
  };
}

} // namespace

PolicyKind policy_files::llada22() {
  return {"llada22", make_llada22, llada22_keys(), false};
}

} // namespace dllm::decode

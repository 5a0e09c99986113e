// Edit flows (Havasi et al. 2025; ZHZisZZ/dllm). The canvas grows and shrinks. Time goes from 0 to
// 1 in `steps` steps of tau = 1 / steps. With the rates of the heads and w = kappa' / (1 - kappa),
//   a token is deleted or substituted with probability tau w (r_delete + r_substitute);
//   it is deleted with the share of r_delete in this sum;
//   a token is inserted to its right with probability tau w r_insert.
// Tokens come from the heads of edits. Given tokens stay, and no token is inserted between two of
// them. The model must be trained with objective editflow.
//
// A rate is the expected number of edits left at a place. The steps above leave some edits undone.
// A place gets one token per step, and in the last step an edit of rate r has a probability of
// about r. So up to `finish_steps` further steps do every edit whose rate is above one half,
// without chance, until no such edit is left.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "model/network/edit_heads.h"

#include <algorithm>

namespace dllm::decode {
namespace {

constexpr double kMostLikely = 1 - 1e-6; // largest probability of an edit
// After the last time every edit with a larger rate is done. The rate is in expected edits.
constexpr double kFinishRate = 0.5;

struct EditSettings {
  int64_t steps, finish_steps, most_tokens;
  int32_t mask_id;
  bool edit_prompt, keep_masks, reuse;
};

// The next canvas, which a step writes from left to right.
struct EditedCanvas {
  std::vector<int32_t> ids;
  std::vector<State> states;
  std::vector<float> confidence;
  std::vector<int64_t> written; // positions of new tokens
  bool moved = false;           // whether tokens were inserted or deleted

  void keep(int32_t id, State state, float probability) {
    ids.push_back(id);
    states.push_back(state);
    confidence.push_back(probability);
  }
  void write(int32_t id, State state, float probability) {
    written.push_back(static_cast<int64_t>(ids.size()));
    keep(id, state, probability);
  }
};

class EditSession final : public Session {
public:
  EditSession(const EditSettings& settings, const noise::Schedule& schedule, Request& request)
      : settings_(settings), schedule_(schedule),
        grows_behind_(request.prompt == request.length() ||
                      !is_fixed(request, request.length() - 1)) {
    request.origin = request.prompt;
    request.block_length = INT32_MAX; // one block, whatever the length of the canvas
    if (settings_.edit_prompt)
      std::ranges::replace(request.states, State::fixed, State::provisional);
    if (wanted(request).empty()) request.finish = Finish::decided;
  }
  std::unique_ptr<Session> clone() const override { return std::make_unique<EditSession>(*this); }

  PassRequest next_pass(const Request& request, const CacheView&) const override {
    PassRequest pass;
    if (!last_.empty()) return pass; // the canvas has not changed since the last predictions
    pass.end = request.length();
    pass.positions = wanted(request);
    pass.time = 1 - time(request);
    return pass;
  }

  Outcome apply(Request& request, const PassRequest&,
                std::span<const Prediction> predictions) override {
    const std::vector<Prediction> kept = std::move(last_);
    last_.clear();
    const std::span<const Prediction> now = predictions.empty() ? std::span(kept) : predictions;
    bool edited = false;
    const bool over = is_over(request);
    EditedCanvas made = edit(request, now, &edited);
    const bool last =
        ++request.step_in_block >= settings_.steps + settings_.finish_steps || (over && !edited);
    if (!edited && settings_.reuse && !last) last_.assign(now.begin(), now.end());
    if (last) finish(made);
    request.ids = std::move(made.ids);
    request.states = std::move(made.states);
    request.confidence = std::move(made.confidence);
    if (last || wanted(request).empty()) request.finish = Finish::decided;
    return {std::move(made.written), 0, 0, request.length(), !request.active(), made.moved};
  }

private:
  // Returns whether time has reached 1, so that a finishing step comes.
  bool is_over(const Request& request) const { return request.step_in_block >= settings_.steps; }
  double time(const Request& request) const {
    const int64_t step = std::min(request.step_in_block, settings_.steps - 1);
    return static_cast<double>(step) / static_cast<double>(settings_.steps);
  }
  static bool is_fixed(const Request& request, int64_t position) {
    return position >= 0 && position < request.length() &&
           request.states[static_cast<size_t>(position)] == State::fixed;
  }
  // Returns whether a token may be inserted to the right of a position.
  bool grows_after(const Request& request, int64_t position) const {
    if (!is_fixed(request, position)) return true;
    return position + 1 < request.length() ? !is_fixed(request, position + 1) : grows_behind_;
  }
  std::vector<int64_t> wanted(const Request& request) const {
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < request.length(); ++i) {
      if (!is_fixed(request, i) || grows_after(request, i)) positions.push_back(i);
    }
    return positions;
  }

  State state_of(int32_t id) const {
    return id == settings_.mask_id ? State::masked : State::provisional;
  }

  EditedCanvas edit(const Request& request, std::span<const Prediction> predictions,
                    bool* edited) const {
    const double factor = schedule_.weight(time(request)) / static_cast<double>(settings_.steps);
    const bool over = is_over(request);
    const auto happens = [&](double rate, int64_t position, int word) {
      if (over) return rate > kFinishRate;
      const double probability = std::clamp(factor * rate, 0.0, kMostLikely);
      return static_cast<double>(position_uniform(request, position, word)) < probability;
    };
    EditedCanvas made;
    auto next = predictions.begin();
    int64_t left = request.length(); // tokens of the old canvas that are not deleted
    for (int64_t i = 0; i < request.length(); ++i) {
      const auto at = static_cast<size_t>(i);
      const bool predicted = next != predictions.end() && next->position == i;
      if (!predicted) {
        made.keep(request.ids[at], request.states[at], request.confidence[at]);
        continue;
      }
      const Prediction& p = *next++;
      const double substitute = p.edit.rates[0], remove = p.edit.rates[1];
      const bool fires = !is_fixed(request, i) && happens(substitute + remove, i, 1);
      const float dice = over ? 0.5f : position_uniform(request, i, 2);
      const bool removes = fires && left > 1 && dice < remove / (remove + substitute + 1e-8);
      *edited = *edited || fires;
      made.moved = made.moved || removes;
      if (removes)
        --left;
      else if (fires)
        made.write(p.token, state_of(p.token), p.probability);
      else
        made.keep(request.ids[at], request.states[at], request.confidence[at]);
      const int64_t behind = request.length() - i - 1;
      const bool room = static_cast<int64_t>(made.ids.size()) + behind < settings_.most_tokens;
      if (!grows_after(request, i) || !room || !happens(p.edit.rates[2], i, 3)) continue;
      *edited = made.moved = true;
      made.write(p.edit.insert, state_of(p.edit.insert), p.edit.insert_probability);
    }
    return made;
  }

  // Ends the canvas: removes the mask tokens, unless keep_masks is set, and makes the rest final.
  void finish(EditedCanvas& made) const {
    EditedCanvas ended;
    ended.moved = made.moved;
    for (size_t i = 0; i < made.ids.size(); ++i) {
      const bool leaves = made.states[i] == State::masked && !settings_.keep_masks;
      const bool only = ended.ids.empty() && i + 1 == made.ids.size();
      if (leaves && !only) {
        ended.moved = true;
        continue;
      }
      const bool is_new =
          std::ranges::find(made.written, static_cast<int64_t>(i)) != made.written.end();
      const State state = made.states[i] == State::fixed ? State::fixed : State::final;
      if (is_new)
        ended.write(made.ids[i], state, made.confidence[i]);
      else
        ended.keep(made.ids[i], state, made.confidence[i]);
    }
    made = std::move(ended);
  }

  EditSettings settings_;
  const noise::Schedule& schedule_;
  bool grows_behind_;            // a token may be inserted after a given last token
  std::vector<Prediction> last_; // predictions of a step that changed nothing
};

class EditPolicy final : public Policy {
public:
  explicit EditPolicy(const PolicySetup& setup) : Policy(setup) {
    model::need_edit_heads(setup.config, "policy editflow");
    if (setup.f64("guidance") > 0) fail(Code::invalid_argument, "policy editflow has no guidance");
    if (!setup.options.list("defer").empty())
      fail(Code::invalid_argument, "policy editflow compares no positions: leave defer empty");
    const int64_t most = setup.i64("max_length");
    settings_ = {setup.i64("steps"),
                 setup.i64("finish_steps"),
                 most > 0 ? most : setup.config.max_positions,
                 setup.mask_id,
                 setup.options.boolean("edit_prompt"),
                 setup.options.boolean("keep_masks"),
                 setup.options.boolean("time_independent") && !setup.config.time_conditioning};
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    if (setup().mask_id < 0 && request.open_count(0, request.length()) > 0) {
      fail_with_hint("set gen_length = 0, or the model option mask_token",
                     Code::failed_precondition,
                     "open positions hold mask tokens at first and the model has none");
    }
    if (request.settings.constraint != nullptr && settings_.edit_prompt) {
      fail_with_hint("set edit_prompt to false", Code::invalid_argument,
                     "policy editflow with edit_prompt keeps given tokens that a constraint may "
                     "refuse");
    }
    return std::make_unique<EditSession>(settings_, setup().schedule, request);
  }
  PredictionNeeds needs() const override { return {.mask = false, .edits = true}; }
  LoopOffer loop() const override { return {nullptr, "the canvas changes its length"}; }

private:
  EditSettings settings_{};
};

std::unique_ptr<Policy> make_editflow(const PolicySetup& setup) {
  return std::make_unique<EditPolicy>(setup);
}

std::vector<OptionSpec> editflow_keys() {
  std::vector<std::string> kappas;
  for (const std::string& name : noise::schedule_names()) {
    if (name.starts_with("kappa_")) kappas.push_back(name);
  }
  return {
      option_choice("schedule", "kappa_cubic", kappas,
                    "Schedule that the model was trained with: how far the text is at a time."),
      option_i64("finish_steps", 0, 0, 1 << 20,
                 "Most steps after the last time, which do every edit with a rate above one half; "
                 "they end when there is no such edit."),
      option_bool(
          "edit_prompt", false,
          "Given tokens may be replaced and deleted too, and others inserted between them."),
      option_bool("keep_masks", false,
                  "Mask tokens that are left after the last step stay in the text; false: they "
                  "are removed."),
      option_bool("time_independent", true,
                  "A step after one that changed nothing takes its predictions again, without a "
                  "pass; models with time conditioning never do."),
  };
}

} // namespace

PolicyKind policy_files::editflow() {
  return {"editflow", make_editflow, editflow_keys(), false};
}

} // namespace dllm::decode

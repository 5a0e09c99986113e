// Multi-block decoding (d3LLM, hao-ai-lab; scrya-com/dLLM-castlehill). The next block begins while
// the block before is still being decided. Positions of all begun blocks are decided when their
// entropy is low. The leading block gets at least one token per step.

#include "decode/policies/multi_block.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// The window of a cache under full attention. Decided blocks leave the window a few steps after
// they were done, so their K and V change little. Full passes renew the rest.
class DelayedWindow {
public:
  // Plans the window of round number `round`, counted from 1. It is [begin, ...). After the round
  // blocks before leave_end are kept.
  void plan(const MultiBlockSettings& settings, const Pipeline& pipeline, const Request& request,
            int64_t round) {
    done_at_.resize(static_cast<size_t>(pipeline.count()), -1);
    leave_end_ = kept_;
    bool waiting = false;
    if (leave_end_ < request.origin && round >= settings.cache_delay) leave_end_ = request.origin;
    for (int64_t block = 0; block < pipeline.created(); ++block) {
      if (pipeline.end(block) <= kept_) continue;
      if (pipeline.open(request, block) > 0) break; // later blocks wait for this one
      int64_t& done_at = done_at_[static_cast<size_t>(block)];
      if (done_at < 0) done_at = round;
      const bool is_due = round >= done_at + settings.cache_delay;
      if (is_due && leave_end_ == pipeline.begin(block)) leave_end_ = pipeline.end(block);
      waiting = waiting || !is_due;
      // d3LLM on LLaDA counts the delay of a block from the end of the one before.
      if (!is_due && settings.compat == MultiBlockCompat::d3llm_llada) break;
    }
    const bool refresh =
        waiting || (settings.cache_refresh > 0 && round % settings.cache_refresh == 0);
    begin_ = leave_end_ == kept_ && refresh ? 0 : kept_;
  }
  void ran(uint64_t generation) {
    kept_ = leave_end_;
    generation_ = generation;
    filled_ = true;
  }
  // Returns the begin of the window; 0 if the cache was lost.
  int64_t begin(uint64_t generation) const {
    return filled_ && generation == generation_ ? begin_ : 0;
  }

private:
  std::vector<int64_t> done_at_; // by block: the round in which it was found done; -1: not yet
  int64_t kept_ = 0, leave_end_ = 0, begin_ = 0;
  uint64_t generation_ = 0;
  bool filled_ = false;
};

class MultiBlockSession final : public Session {
public:
  MultiBlockSession(const MultiBlockSettings& settings, Request& request)
      : settings_(settings), pipeline_(settings.pipeline, request) {
    next_round(request);
  }
  std::unique_ptr<Session> clone() const override {
    return std::make_unique<MultiBlockSession>(*this);
  }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    PassRequest pass;
    pass.positions = request.open_positions(request.origin, pipeline_.active_end());
    pass.end = std::min(request.span.limit(pipeline_.active_end() - 1), request.length());
    for (const int64_t position : stale_) {
      // All open positions are before the stale ones.
      if (position < pass.end) pass.positions.push_back(position);
    }
    if (settings_.keep == MultiBlockKeep::none) return pass;
    pass.cached = true;
    pass.generation = cache.generation;
    if (settings_.keep == MultiBlockKeep::delayed) {
      pass.begin = delayed_.begin(cache.generation);
      return pass;
    }
    // Done blocks become final in the first pass after they are done.
    pass.final_end = request.span.floor(pass.positions.front());
    // Under shift 1 the window includes the position that predicts the first token.
    pass.begin = std::max<int64_t>(0, std::min(cache.final_end, pass.final_end) - settings_.shift);
    return pass;
  }

  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    if (settings_.keep == MultiBlockKeep::delayed) delayed_.ran(pass.generation);
    std::vector<int64_t> decided;
    redone_.clear();
    for (const size_t i : chosen(request, predictions)) {
      const Prediction& p = predictions[i];
      const auto [token, probability] = token_of(p);
      if (!request.is_open(p.position)) { // a stale position
        redone_.push_back({p.position, token, probability});
        continue;
      }
      // An EOS may still replace the token until all positions before it are decided.
      request.decide(p.position, token, probability,
                     settings_.eos >= 0 ? State::provisional : State::final);
      decided.push_back(p.position);
    }
    return finish_step(request, std::move(decided));
  }

  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override {
    return finish_step(request, decided);
  }

private:
  // Returns the indices of the predictions to decide: low entropy, at least one of the leading
  // block.
  std::vector<size_t> chosen(const Request& request,
                             std::span<const Prediction> predictions) const {
    std::vector<uint8_t> take(predictions.size(), 0);
    const int64_t leading = pipeline_.leading(request);
    size_t surest = predictions.size(), forced = predictions.size();
    bool leads = leading < 0;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const float entropy = predictions[i].entropy;
      take[i] = settings_.surest ? entropy <= settings_.entropy_threshold
                                 : entropy < settings_.entropy_threshold;
      const auto lower = [&](size_t than) {
        return than == predictions.size() || entropy < predictions[than].entropy;
      };
      if (lower(surest)) surest = i;
      const int64_t position = predictions[i].position;
      if (leading < 0 || position < pipeline_.begin(leading) || position >= pipeline_.end(leading))
        continue;
      leads = leads || take[i] != 0;
      if (lower(forced)) forced = i;
    }
    if (settings_.surest && surest < take.size()) {
      take[surest] = 1;
      leads = leads || surest == forced;
    }
    if (!leads && forced < take.size()) take[forced] = 1;
    std::vector<size_t> indices;
    for (size_t i = 0; i < take.size(); ++i) {
      if (take[i] != 0) indices.push_back(i);
    }
    return indices;
  }

  // Returns the drawn token. If it is the mask token, returns the likeliest other token.
  std::pair<int32_t, float> token_of(const Prediction& p) const {
    if (p.token != settings_.mask_id) return {p.token, p.probability};
    const size_t other = p.top_ids[0] == settings_.mask_id ? 1 : 0;
    return {p.top_ids[other], p.top_probs[other]};
  }

  Outcome finish_step(Request& request, std::vector<int64_t> decided) {
    Outcome outcome{std::move(decided), request.block, request.block_begin(), request.block_end(),
                    false};
    if (settings_.eos >= 0 && !ends_as_original(request)) end_at_eos(request, outcome);
    std::sort(outcome.decided.begin(), outcome.decided.end());
    for (int64_t i = request.origin; i < request.length() && !request.is_open(i); ++i) {
      State& state = request.states[static_cast<size_t>(i)];
      if (state == State::provisional) state = State::final;
    }
    ++request.step_in_block;
    const int64_t before = request.block;
    next_round(request);
    outcome.block_ended = request.block > before;
    // Blocks that were done out of order end with the block that they waited for.
    if (outcome.block_ended) outcome.end = pipeline_.end(request.block - 1);
    return outcome;
  }

  bool is_eos(const Request& request, int64_t position) const {
    const auto at = static_cast<size_t>(position);
    return request.states[at] != State::fixed && request.ids[at] == settings_.eos &&
           !request.is_open(position);
  }

  // Ends a request as the original implementations do. They look for EOS when a round begins, after
  // the test whether any mask is left. So tokens that the last round decided after an EOS stay.
  // With d3LLM the tokens that it decided again in place of a filled EOS stay too.
  bool ends_as_original(Request& request) {
    if (settings_.compat == MultiBlockCompat::none) return false;
    if (request.open_count(request.origin, request.length()) > 0) return false;
    for (const Redone& once : redone_) request.decide(once.position, once.token, once.probability);
    for (int64_t i = request.origin; i < request.length(); ++i) {
      if (is_eos(request, i)) request.finish = Finish::stopped;
    }
    return true;
  }

  // Writes EOS to all positions after the first EOS, decided or not.
  void end_at_eos(Request& request, Outcome& outcome) {
    stale_.clear();
    int64_t eos = request.origin;
    while (eos < request.length() && !is_eos(request, eos)) ++eos;
    for (int64_t i = eos + 1; i < request.length(); ++i) {
      if (request.states[static_cast<size_t>(i)] == State::fixed) continue;
      if (request.is_open(i)) {
        outcome.decided.push_back(i);
        if (settings_.is_d3llm()) stale_.push_back(i);
      }
      request.decide(i, settings_.eos, request.confidence[static_cast<size_t>(eos)]);
    }
    if (eos < request.length() && request.open_count(request.origin, request.length()) == 0)
      request.finish = Finish::stopped;
  }

  void next_round(Request& request) {
    ++round_;
    while (request.block < request.block_count() && pipeline_.open(request, request.block) == 0) {
      ++request.block;
      request.step_in_block = 0;
    }
    if (request.open_count(request.origin, request.length()) == 0) {
      if (request.active()) request.finish = Finish::decided;
      return;
    }
    pipeline_.advance(request);
    if (settings_.keep == MultiBlockKeep::delayed)
      delayed_.plan(settings_, pipeline_, request, round_);
  }

  MultiBlockSettings settings_;
  Pipeline pipeline_;
  DelayedWindow delayed_;
  int64_t round_ = 0;
  // Positions that EOS filled in the last step. d3LLM treats them as open in the next step.
  std::vector<int64_t> stale_;
  // The tokens that stale positions would get in this step.
  struct Redone {
    int64_t position;
    int32_t token;
    float probability;
  };
  std::vector<Redone> redone_;
};

} // namespace

std::unique_ptr<Session> make_multi_block_session(const MultiBlockSettings& settings,
                                                  Request& request) {
  return std::make_unique<MultiBlockSession>(settings, request);
}

Pipeline::Pipeline(const PipelineSettings& settings, const Request& request)
    : settings_(settings), origin_(request.origin), length_(request.block_length),
      canvas_(request.length()) {
  for (int64_t block = 0; block < request.block_count(); ++block)
    totals_.push_back(open(request, block));
  activated_.assign(totals_.size(), 0);
  if (!activated_.empty()) activated_[0] = 1;
  created_ = std::min<int64_t>(1, count());
}

double Pipeline::progress(const Request& request, int64_t block) const {
  const int64_t total = totals_[static_cast<size_t>(block)];
  if (total == 0) return 1;
  return 1.0 - static_cast<double>(open(request, block)) / static_cast<double>(total);
}

void Pipeline::create(const Request& request) {
  const int64_t last = created_ - 1;
  if (created_ >= count()) return;
  const double done = progress(request, last);
  if (done < settings_.add && open(request, last) > 0) return;
  activated_[static_cast<size_t>(created_)] = done >= settings_.activate_new ? 1 : 0;
  ++created_;
}

void Pipeline::advance(const Request& request) {
  do {
    for (int64_t block = 1; block < created_; ++block) {
      if (progress(request, block - 1) >= settings_.activate)
        activated_[static_cast<size_t>(block)] = 1;
    }
    create(request);
    active_end_ = origin_;
    for (int64_t block = 0; block < created_; ++block) {
      if (open(request, block) > 0 || activated(block)) active_end_ = end(block);
    }
    // A block whose positions were all given is passed by.
  } while (created_ < count() && request.open_count(origin_, active_end_) == 0);
}

int64_t Pipeline::leading(const Request& request) const {
  for (int64_t block = 0; block < created_; ++block) {
    if (activated(block) && open(request, block) > 0) return block;
  }
  return -1;
}

} // namespace dllm::decode

#pragma once
// A policy decides which positions of a canvas become which tokens, and when. A policy is made once
// for a decoder and read-only; what it remembers of one request is a session.

#include "base/options.h"
#include "decode/loop/loop_rule.h"
#include "decode/pass/pass_request.h"
#include "decode/request/request.h"
#include "model/config.h"
#include "noise/schedule.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// What a step did to a canvas, for events and traces.
struct Outcome {
  std::vector<int64_t> decided; // positions that were masked before and are not now, ascending
  int64_t block = 0, begin = 0, end = 0; // the block it worked on
  bool block_ended = false;
};

// One request under one policy. The decoder calls next_pass, runs the model, then calls apply; a pass
// that fails or is cancelled is repeated, so next_pass changes nothing.
class Session {
public:
  virtual ~Session() = default;
  virtual PassRequest next_pass(const Request& request, const CacheView& cache) const = 0;
  // `predictions` in the order of pass.positions. Sets request.finish when the request is done. After a
  // pass of another kind the decoder calls next_pass again before the step ends.
  virtual Outcome apply(Request& request, const PassRequest& pass,
                        std::span<const Prediction> predictions) = 0;
  // The host decided instead (dllmx_decoder_commit): positions were written. Default:
  // unimplemented.
  virtual Outcome host_decided(Request& request, const std::vector<int64_t>& decided);
  // For loops that run without the host (Policy::loop), default: none. The coming step and those
  // behind it in the same block.
  virtual LoopPlan plan_loop(const Request& request, const CacheView& cache) const;
  virtual LoopTables loop_tables(const Request& request, int64_t steps) const;
  // Function evaluations as the policy's source counts them; default: steps with a pass.
  virtual int64_t nfe(const Request& request) const { return request.evaluations; }
};

// What a policy is made from; all references outlive it.
struct PolicySetup {
  const Options& options; // of kind decoder:<name>
  const noise::Schedule& schedule;
  const model::ModelConfig& config;
  int32_t mask_id;
  AttentionSpan span; // of the decoder's attention; sessions may set another on their request
  int shift;          // 1: hidden state of the position before predicts

  int64_t i64(const char* key) const { return options.i64(key); }
  double f64(const char* key) const { return options.f64(key); }
};

class Policy {
public:
  explicit Policy(const PolicySetup& setup) : setup_(setup) {}
  virtual ~Policy() = default;
  // Prepares request (its blocks, its span; finish when nothing is open) and starts on it.
  virtual std::unique_ptr<Session> begin(Request& request) const = 0;

  virtual bool needs_mask() const { return true; }     // a model without mask token is refused
  virtual int64_t top() const { return 1; }            // likeliest tokens a prediction lists
  virtual bool shaped() const { return false; }        // wants Prediction::shaped_*
  virtual bool nucleus_first() const { return false; } // top_p before top_k
  virtual int64_t soft_width() const { return 0; }     // most tokens of a SoftInput
  // The graph form of its rule, where it has one; called once.
  virtual LoopOffer loop() const { return {nullptr, "this policy has no loop yet"}; }
  virtual std::string approximation() const { return ""; } // what is not exact, for describe

protected:
  const PolicySetup& setup() const { return setup_; }

private:
  PolicySetup setup_;
};

std::vector<std::string> policy_names();
// "decoder" for "", "decoder:<name>" else. Fails with not_found and the nearest name.
const Schema& decoder_schema(const std::string& policy);
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySetup& setup);

// Option block_length where it is set, else the model's own where it has one, else the default.
int64_t block_length_of(const PolicySetup& setup);
// The token id that the text says; what: "option stop". Fails with invalid_argument.
int32_t parse_id(const std::string& text, int64_t vocab, const char* what);
// An option that is a token id, -1 for none; fails with invalid_argument for no token of the model.
int32_t token_option(const PolicySetup& setup, const char* key);

} // namespace dllm::decode

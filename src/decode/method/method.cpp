#include "decode/method/method.h"

#include "base/error.h"
#include "decode/method/setup.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace dllm::decode {

namespace {

std::unique_ptr<Policy> policy_of(const PolicyMaker& make, const std::string& name,
                                  const PolicySetup& setup) {
  return make ? make(setup) : make_policy(name, setup);
}

// Returns the options with which a model with a mask filler is decoded. The filler reads whole
// canvases, so no K and V of masked positions can be kept.
Options options_for_filler(const model::Model& model, Options options, const PolicyMaker& make) {
  const model::ModelConfig& config = model.config();
  if (!config.filler.on()) return options;
  Options uncached = options;
  uncached.set_str("cache", "none");
  const noise::ScheduleRef schedule = schedule_of(uncached, config);
  const PolicySetup setup = policy_setup(model, uncached, *schedule);
  if (!policy_of(make, options.str("policy"), setup)->needs().mask) return options;
  const bool is_whole = config.filler.kind == model::FillerKind::small ||
                        !attention_span_of(config, options).is_exact();
  if (!is_whole) {
    fail_with_hint("leave attention at auto", Code::invalid_argument,
                   "a mask filler of kind {} needs bidirectional attention",
                   model::filler_kind_name(config.filler.kind));
  }
  if (options.str("cache") != "auto" && options.str("cache") != "none") {
    fail_with_hint("set cache to none", Code::invalid_argument,
                   "cache {} keeps K and V, which change with the mask filler of the model",
                   options.str("cache"));
  }
  return uncached;
}

Options without_adapters(Options options) {
  if (options.is_set("adapters")) options.set_json({{"adapters", Json::array()}});
  return options;
}

// Fails if the options of a policy over tokens name a solver of arrays.
void check_no_solver(const Options& options) {
  if (options.str("solver") == Options(options.schema()).str("solver")) return;
  fail_with_hint("leave option solver out", Code::invalid_argument,
                 "policy {} decodes tokens, and solver {} takes noise out of arrays of numbers",
                 options.str("policy"), options.str("solver"));
}

} // namespace

Method::Method(const std::shared_ptr<model::Model>& model, Options options, int64_t number,
               const PolicyMaker& make, std::optional<model::PartList> parts)
    : number_(number), options_(options_for_filler(*model, std::move(options), make)),
      text_(text_of(options_)), program_text_(text_of(without_adapters(options_))),
      is_named_(!make), parts_(std::move(parts)), schedule_(schedule_of(options_, model->config())),
      policy_(policy_of(make, options_.str("policy"), policy_setup(*model, options_, *schedule_))),
      mask_id_(mask_id_of(*model, *policy_)),
      passes_(std::make_shared<const PassSettings>(pass_settings(*model, options_, *policy_))) {
  if (policy_->arrays() != nullptr) {
    set_arrays(model);
  } else {
    check_no_solver(options_);
    set_loop(model);
  }
}

void Method::share_passes(const Method& other) {
  if (*passes_ == *other.passes_) passes_ = other.passes_;
  const bool is_alike = program_text_ == other.program_text_ && is_named_ && other.is_named_;
  if (is_alike && loop_ != nullptr && other.loop_ != nullptr) loop_ = other.loop_;
}

// A policy over arrays has one program for one step and for many.
void Method::set_arrays(const std::shared_ptr<model::Model>& model) {
  if (!passes_->deferred.empty()) {
    fail_with_hint("leave option defer empty", Code::unimplemented,
                   "policy {} decodes arrays, and no token of theirs is decided before another",
                   options_.str("policy"));
  }
  other_parts_ = policy_->arrays()->rule().other_parts();
  model->reading(other_parts_); // fails for a part that the model lacks
  arrays_ = std::make_unique<ArrayProgram>(model, *passes_, *policy_->arrays());
  const std::string& wanted = options_.str("loop");
  if (wanted == "host") {
    loop_why_ = "option loop is host";
  } else if (wanted == "auto" && !model->engine().runs_ahead()) {
    loop_why_ = "the engine does not run ahead of the host";
  } else {
    array_limit_ = INT64_MAX;
  }
}

// Makes the loop of the policy if option loop, the engine and the other options allow it.
void Method::set_loop(const std::shared_ptr<model::Model>& model) {
  const std::string& wanted = options_.str("loop");
  if (wanted == "host") return stop_loop("option loop is host");
  if (wanted == "auto" && !model->engine().runs_ahead())
    return stop_loop("the engine does not run ahead of the host");
  LoopOffer offer = policy_->loop();
  if (offer.rule == nullptr) return stop_loop(offer.why_not);
  if (!passes_->deferred.empty()) return stop_loop("option defer has no graph form");
  if (passes_->needs.kept > 0)
    return stop_loop("option top_logprobs keeps likely tokens of each step");
  loop_ = std::make_shared<LoopProgram>(model, *passes_, std::move(offer.rule));
}

void Method::stop_loop(const std::string& why_not) {
  if (options_.str("loop") == "device") {
    fail_with_hint("set loop to auto or host", Code::unimplemented,
                   "policy {} cannot run as a loop on the device: {}", options_.str("policy"),
                   why_not);
  }
  loop_.reset();
  loop_why_ = why_not;
}

} // namespace dllm::decode

#pragma once
// A method is how requests are decoded: a policy with its options and schedule, the settings of its
// passes, and its loop. Requests with the same options share one method.

#include "base/options.h"
#include "decode/array/array_program.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/settings.h"
#include "decode/request/policy.h"
#include "model/model.h"
#include "noise/schedules/schedule.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::decode {

using PolicyMaker = std::function<std::unique_ptr<Policy>(const PolicySetup& setup)>;

class Method {
public:
  // options: of kind "decoder:<policy>". number: unique among the methods of a decoder. make: makes
  // a policy that is not in the table of policies; empty: option policy names it. parts: the parts
  // of the model that its passes read; not set: the base and all its adapters. Fails with
  // failed_precondition if the policy needs a mask token and the model has none, and with not_found
  // if the policy reads a network that the model lacks.
  Method(const std::shared_ptr<model::Model>& model, Options options, int64_t number,
         const PolicyMaker& make = {}, std::optional<model::PartList> parts = {});
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  int64_t number() const { return number_; }
  const Options& options() const { return options_; } // of kind decoder:<policy>
  // Returns a text that is equal for equal options.
  const std::string& text() const { return text_; }
  // Returns whether the policy is of the table of policies.
  bool is_named() const { return is_named_; }
  const noise::Schedule& schedule() const { return *schedule_; }
  const Policy& policy() const { return *policy_; }
  int32_t mask_id() const { return mask_id_; } // token that open positions hold
  // Returns the settings of the passes. Requests share passes if their methods share this object.
  const PassSettings& passes() const { return *passes_; }
  // Shares the settings object of `other` if both settings are equal, and its loop if both methods
  // differ in their adapters alone.
  void share_passes(const Method& other);
  const std::optional<model::PartList>& parts() const { return parts_; }
  // Returns the networks that its passes read in addition to these parts.
  const std::vector<std::string>& other_parts() const { return other_parts_; }

  // Returns the loop; null: the host runs each step. One call at a time.
  LoopProgram* loop() const { return loop_.get(); }
  // Returns the program of a policy over arrays; null: the policy decodes tokens. One call at a
  // time.
  ArrayProgram* arrays() const { return arrays_.get(); }
  // Returns most steps of a launch of arrays(): 1 if the host goes from step to step.
  int64_t array_limit() const { return array_limit_; }
  // Returns whether a program takes several steps without the host.
  bool runs_on_device() const { return loop_ != nullptr || array_limit_ > 1; }
  // Returns why runs_on_device() is false.
  const std::string& loop_why() const { return loop_why_; }
  // Drops the loop. Fails with unimplemented if option loop is device.
  void stop_loop(const std::string& why_not);

private:
  void set_loop(const std::shared_ptr<model::Model>& model);
  void set_arrays(const std::shared_ptr<model::Model>& model);

  int64_t number_;
  Options options_;
  std::string text_, program_text_; // program_text_: without the adapters
  bool is_named_;
  std::optional<model::PartList> parts_;
  std::vector<std::string> other_parts_;
  noise::ScheduleRef schedule_;
  std::unique_ptr<Policy> policy_; // refers to options_ and schedule_
  int32_t mask_id_;
  std::shared_ptr<const PassSettings> passes_;
  std::shared_ptr<LoopProgram> loop_;
  std::unique_ptr<ArrayProgram> arrays_;
  int64_t array_limit_ = 1;
  std::string loop_why_;
};

} // namespace dllm::decode

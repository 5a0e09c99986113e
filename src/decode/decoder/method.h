#pragma once
// How requests are decoded: a policy with its options and its schedule, what its passes compute, and its
// loop. One set of options makes one, which all requests with those options share.

#include "base/options.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/settings.h"
#include "decode/request/policy.h"
#include "model/model.h"
#include "noise/schedule.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::decode {

class Method {
public:
  // options: of kind "decoder:<policy>". number: unlike that of every other method of a
  // decoder. Fails with failed_precondition when the model has no mask token and the policy needs one.
  Method(const std::shared_ptr<model::Model>& model, Options options, int64_t number);
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  int64_t number() const { return number_; }
  const Options& options() const { return options_; } // of kind decoder:<policy>
  // Equal for equal options.
  const std::string& text() const { return text_; }
  const noise::Schedule& schedule() const { return *schedule_; }
  const Policy& policy() const { return *policy_; }
  int32_t mask_id() const { return mask_id_; } // what open positions hold
  // Requests of equal settings share passes, and methods of equal settings one object.
  const PassSettings& passes() const { return *passes_; }
  void share_passes(const Method& other);

  // Null: the host goes from step to step. One call at a time.
  LoopProgram* loop() const { return loop_.get(); }
  const std::string& loop_why() const { return loop_why_; } // why it is null
  // From now on it is. Fails with unimplemented when the options want a loop on the device.
  void stop_loop(const std::string& why_not);

private:
  void set_loop(const std::shared_ptr<model::Model>& model);

  int64_t number_;
  Options options_;
  std::string text_;
  noise::ScheduleRef schedule_;
  std::unique_ptr<Policy> policy_; // refers to both
  int32_t mask_id_;
  std::shared_ptr<const PassSettings> passes_;
  std::unique_ptr<LoopProgram> loop_;
  std::string loop_why_;
};

} // namespace dllm::decode

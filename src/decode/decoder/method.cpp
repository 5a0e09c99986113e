#include "decode/decoder/method.h"

#include "base/error.h"
#include "decode/decoder/setup.h"

#include <utility>

namespace dllm::decode {

Method::Method(const std::shared_ptr<model::Model>& model, Options options, int64_t number)
    : number_(number), options_(std::move(options)), text_(text_of(options_)),
      schedule_(schedule_of(options_)),
      policy_(make_policy(options_.str("policy"), policy_setup(*model, options_, *schedule_))),
      mask_id_(mask_id_of(*model, *policy_)),
      passes_(std::make_shared<const PassSettings>(pass_settings(*model, options_, *policy_))) {
  set_loop(model);
}

void Method::share_passes(const Method& other) {
  if (*passes_ == *other.passes_) passes_ = other.passes_;
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
  loop_ = std::make_unique<LoopProgram>(model, *passes_, std::move(offer.rule));
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

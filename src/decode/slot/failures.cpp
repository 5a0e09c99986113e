#include "decode/slot/failures.h"

#include "base/log.h"
#include "graph/engine.h"

#include <algorithm>
#include <string>

namespace dllm::decode {

bool Failures::is_of_request(const Error& error) {
  if (dynamic_cast<const graph::StateLost*>(&error) != nullptr) return false;
  switch (error.code()) {
  case Code::cancelled:
  case Code::deadline_exceeded:
  case Code::resource_exhausted:
  case Code::aborted:
  case Code::unavailable: return false;
  default: return true;
  }
}

bool Failures::succeeds(Slot& slot, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (!is_of_request(error)) throw;
    fail(slot, error);
    return false;
  }
}

void Failures::fail(Slot& slot, const Error& error) {
  slot.fail(error);
  if (slots_.active_count() == 0) return; // the call throws the error
  log(LogLevel::warn, "slot {} failed and the others go on: {}", slot.number(), error.text());
}

void Failures::try_again() {
  if (slots_.active_count() > 0) return;
  for (auto& [number, slot] : slots_.all()) slot.try_again();
}

int64_t Failures::report() const {
  const int64_t active = slots_.active_count();
  if (active > 0) return active;
  const auto failed = std::ranges::find_if(
      slots_.all(), [](const auto& one) { return one.second.failure() != nullptr; });
  if (failed == slots_.all().end()) return 0;
  const Error& error = *failed->second.failure();
  if (slots_.size() == 1) throw Error(error);
  throw Error(error.code(), fmt::format("slot {}: {}", failed->first, error.text()),
              error.hint().empty() ? "remove the slot" : error.hint() + ", or remove the slot");
}

} // namespace dllm::decode

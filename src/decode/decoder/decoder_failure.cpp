// Errors of one request end only that request. This file decides which errors are of one request,
// who receives them, and when the request is tried again.

#include "base/error.h"
#include "base/log.h"
#include "decode/decoder/decoder.h"
#include "graph/engine.h"

#include <algorithm>

namespace dllm::decode {

// Returns whether an error belongs to one request. A cancel, a lack of memory and a broken engine
// belong to all requests.
bool Decoder::is_of_request(const Error& error) {
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

bool Decoder::succeeds(Entry& entry, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    if (!is_of_request(error)) throw;
    fail_request(entry, error);
    return false;
  }
}

void Decoder::fail_request(Entry& entry, const Error& error) {
  entry.failure = std::make_shared<const Error>(error);
  entry.request.finish = Finish::failed;
  entry.predicted = false;
  entry.planned.reset();
  entry.predictions.clear();
  entry.vetoes.reset();
  entry.cache_row.release();
  if (active_count() == 0) return; // the call throws the error
  log(LogLevel::warn, "slot {} failed and the others go on: {}", entry.request.number,
      error.text());
}

// Makes failed requests active again if no other request is active.
void Decoder::try_again() {
  if (active_count() > 0) return;
  for (auto& [number, entry] : requests_) {
    if (entry.failure == nullptr) continue;
    entry.failure.reset();
    entry.request.finish = Finish::running;
  }
}

// Returns the number of active requests. If there are none, throws the error of the first request
// that failed.
int64_t Decoder::report_failures() const {
  const int64_t active = active_count();
  if (active > 0) return active;
  const auto failed = std::ranges::find_if(
      requests_, [](const auto& one) { return one.second.failure != nullptr; });
  if (failed == requests_.end()) return 0;
  const Error& error = *failed->second.failure;
  if (requests_.size() == 1) throw Error(error);
  throw Error(error.code(), fmt::format("slot {}: {}", failed->first, error.text()),
              error.hint().empty() ? "remove the slot" : error.hint() + ", or remove the slot");
}

} // namespace dllm::decode

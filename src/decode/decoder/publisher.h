#pragma once
// The publisher copies slots for readers on other threads. It returns the metrics and traces of the
// copies, and the description of the decoder.

#include "base/json.h"
#include "decode/method/method.h"
#include "decode/slot/slot.h"
#include "decode/trace/published.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::decode {

class Publisher {
public:
  // Publishes copies of `changed` and the totals. The other slots stay, or are removed if
  // drop_others.
  void put(const std::vector<Slot*>& changed, const DecoderTotals& totals,
           bool drop_others = false);
  void remove(int64_t number, const DecoderTotals& totals);

  // Readers, which any thread may call. They fail with not_found as in Decoder.
  RequestCopyRef copy(int64_t number) const { return published_.request(number); }
  double metric(int64_t number, const std::string& key, bool suspended) const;
  std::string trace(int64_t number, const Options& options) const;
  // method: of requests without decoding options of their own.
  Json describe(const Method& method, bool suspended) const;

private:
  Published published_;
};

} // namespace dllm::decode

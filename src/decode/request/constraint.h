#pragma once
// Which tokens a request may write: a grammar, a schema, a list of words.

#include "decode/request/request.h"

#include <cstdint>
#include <span>

namespace dllm::decode {

// Read-only: one constraint may serve many requests.
class Constraint {
public:
  virtual ~Constraint() = default;
  // Whether `token` may stand at `position` of the canvas, where open positions are masked. What the
  // position holds now does not count. It is never asked about the mask token and given positions.
  virtual bool allows(const Request& request, int64_t position, int32_t token) const = 0;
  // Sets the entries of `banned` (vocab) whose tokens may not stand there. Default: asks `allows` about
  // every token.
  virtual void ban(const Request& request, int64_t position, std::span<uint8_t> banned) const;
};

} // namespace dllm::decode

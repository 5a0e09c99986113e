#pragma once
// A constraint limits the tokens that a request may write: a grammar, a schema, a list of words.

#include "base/threads/parallel.h"
#include "decode/request/request.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// (vocab): 1 for tokens that are not drawn at a position. Positions with equal bans may share them.
using BanRow = std::shared_ptr<const std::vector<uint8_t>>;

// A constraint is read-only, and many requests may share it.
class Constraint {
public:
  virtual ~Constraint() = default;
  // Returns whether `token` may be written at `position`. Open positions of the canvas hold the
  // mask token. The token that `position` holds now does not count. The decoder does not call this
  // for the mask token or for given positions.
  virtual bool allows(const Request& request, int64_t position, int32_t token) const = 0;
  // Returns `banned` with every token that may not be written at `position`. The default calls
  // `allows` for every token.
  virtual BanRow ban(const Request& request, int64_t position, const BanRow& banned) const;
  // Returns the bans of several positions of one canvas. The workers may share the work; the bans
  // are the same for any number of them. The default calls `ban` for each position.
  virtual std::vector<BanRow> bans(const Request& request, std::span<const int64_t> positions,
                                   const BanRow& banned, const Workers& workers) const;
};

} // namespace dllm::decode

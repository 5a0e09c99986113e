#pragma once
// The constraint of a request for text. It says whether the open positions can still get tokens
// with which the text is allowed. TextConstraint is the one of a pattern.

#include "base/task.h"
#include "decode/request/constraint.h"
#include "generate/constraints/automata.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::generate {

// It may keep what it has computed for the last canvas, so it belongs to one request. One call at a
// time.
class AnswerConstraint : public decode::Constraint {
public:
  // Returns whether tokens for the open positions exist with which the text is allowed. `given` are
  // the ids of the canvas, with -1 at open positions.
  virtual bool can_match(const std::vector<int32_t>& given) const = 0;
  // Returns the fewest open positions that a text from its first position on needs, at most `most`;
  // -1 if no text has so few, or if the number is not known. Only for a canvas whose positions from
  // the first one on are open.
  virtual int64_t fewest_positions(int64_t /*most*/) const { return -1; }
  // Returns what the text has to match, for errors: the pattern "a+".
  virtual std::string what() const = 0;
};

// The request that a constraint is made for.
struct ConstraintPlace {
  Automata& automata;                 // automata of patterns, and the bytes of tokens
  const std::vector<uint8_t>& banned; // (vocab), 1 for a token that is not drawn inside the text
  int64_t begin;                      // first position of the text
  const std::vector<int32_t>& ends;   // the tokens that end the text
  bool may_end;                       // one of `ends` may be drawn
  const Task* task;                   // may be null
};

} // namespace dllm::generate

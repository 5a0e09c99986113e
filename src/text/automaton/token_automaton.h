#pragma once
// A TokenAutomaton reads a text token by token. It has a state more than its ByteAutomaton: after
// an end token every token is allowed, because the text ended before it.

#include "base/task.h"
#include "text/automaton/byte_automaton.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::text {

// The bytes that each token adds inside a text. Special tokens and unused ids add none.
class TokenBytes {
public:
  explicit TokenBytes(const Tokenizer& tokenizer, const Task* task = nullptr);

  const std::string& of(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  // Returns whether the token adds other bytes at the beginning of a text, as a tokenizer does that
  // leaves out the first space.
  bool changes_at_start(int32_t token) const { return at_start_[static_cast<size_t>(token)] != 0; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  // Returns the tokens that add bytes, ascending by these bytes.
  const std::vector<int32_t>& sorted() const { return sorted_; }
  // Returns how many bytes sorted()[i] begins with that sorted()[i - 1] begins with too.
  const std::vector<int32_t>& shared() const { return shared_; }

private:
  std::vector<std::string> bytes_;
  std::vector<uint8_t> at_start_;
  std::vector<int32_t> sorted_, shared_;
};

// Read-only; any number of threads may use it.
class TokenAutomaton {
public:
  // Fails as ByteAutomaton, and with invalid_argument if no sequence of tokens matches.
  TokenAutomaton(std::string_view pattern, std::shared_ptr<const TokenBytes> tokens,
                 const Task* task = nullptr);

  // A set of states, one bit each.
  using Set = std::vector<uint64_t>;

  int32_t size() const { return bytes_.size() + 1; }
  int32_t ended() const { return bytes_.size(); } // the state after an end token
  Set none() const { return Set((static_cast<size_t>(size()) + 63) / 64); }
  static void put(Set& set, int32_t state) { set[static_cast<size_t>(state) / 64] |= bit(state); }
  static bool has(const Set& set, int32_t state) {
    return (set[static_cast<size_t>(state) / 64] & bit(state)) != 0;
  }
  static bool is_empty(const Set& set);

  // Returns the state after a token; ByteAutomaton::kDead if the token is not allowed. ends: the
  // tokens that end a text.
  int32_t next(int32_t state, int32_t token, const std::vector<int32_t>& ends) const;
  // Returns the states that any token reaches. may_end: there are end tokens.
  Set after_any(const Set& from, bool may_end) const;
  // Returns the states from which any token reaches one of `to`.
  Set before_any(const Set& to, bool may_end) const;
  // Returns the states from which this token reaches one of `to`.
  Set before(const Set& to, int32_t token, const std::vector<int32_t>& ends) const;
  Set start() const;                // the state at the beginning of a text
  Set finished(bool may_end) const; // the states at which a text may end
  // Calls `allow` for each token that leads from one of `from` to one of `to`, perhaps several
  // times.
  void each_token(const Set& from, const Set& to, const std::vector<int32_t>& ends,
                  const std::function<void(int32_t token)>& allow) const;

  const ByteAutomaton& bytes() const { return bytes_; }
  const TokenBytes& tokens() const { return *tokens_; }

private:
  static uint64_t bit(int32_t state) { return uint64_t{1} << (state % 64); }
  // Calls `found` with each token that is allowed in a state of bytes_, and the state after it.
  template <class Found> void walk(int32_t state, const Found& found) const;

  ByteAutomaton bytes_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::vector<Set> reach_; // by state of bytes_: the states that a token reaches
};

} // namespace dllm::text

#pragma once
// A TokenAutomaton reads a text token by token. It has a state more than its ByteAutomaton: after
// an end token every token is allowed, because the text ended before it.
//
// Tokens of one class lead every state to the same state. A pattern has far fewer classes than a
// vocabulary has tokens, so the tokens that are allowed somewhere are found class by class.

#include "base/task.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/token_trie.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dllm::text {

// Read-only; any number of threads may use it.
class TokenAutomaton {
public:
  // Fails as ByteAutomaton. tokens: those that may be drawn, without the tokens that end a text.
  TokenAutomaton(std::string_view pattern, std::shared_ptr<const TokenTrie> tokens,
                 const Task* task = nullptr, Notation notation = Notation::expression);

  // A set of states, one bit each.
  using Set = std::vector<uint64_t>;

  int32_t size() const { return bytes_.size() + 1; }
  int32_t ended() const { return bytes_.size(); } // the state after an end token
  Set none() const { return Set((static_cast<size_t>(size()) + 63) / 64); }
  static void put(Set& set, int32_t state) { set[static_cast<size_t>(state) / 64] |= bit(state); }
  static bool has(const Set& set, int32_t state) {
    return (set[static_cast<size_t>(state) / 64] & bit(state)) != 0;
  }

  // Returns the state after a token; ByteAutomaton::kDead if the token is not allowed. ends: the
  // tokens that end a text. at_start: the token is the first one of a text.
  int32_t next(int32_t state, int32_t token, const std::vector<int32_t>& ends,
               bool at_start = false) const;
  // Returns the states that one of `from` reaches by a token, which need not be one that may be
  // drawn.
  Set after(const Set& from, int32_t token, const std::vector<int32_t>& ends,
            bool at_start = false) const;
  // Returns the states that any token reaches. may_end: there are end tokens that may be drawn.
  Set after_any(const Set& from, bool may_end) const;
  // Returns the states from which any token reaches one of `to`.
  Set before_any(const Set& to, bool may_end) const;
  // Returns the states from which this token reaches one of `to`.
  Set before(const Set& to, int32_t token, const std::vector<int32_t>& ends,
             bool at_start = false) const;
  Set start() const;                // the state at the beginning of a text
  Set finished(bool may_end) const; // the states at which a text may end
  // The tokens that may be drawn and lead from one of some states to one of others. Pairs of sets
  // often have equal ones.
  struct Allowed {
    bool any = false;             // every token
    bool ends = false;            // the tokens that end a text
    std::vector<uint8_t> classes; // 1 for a class of tokens that is allowed
    friend auto operator<=>(const Allowed&, const Allowed&) = default;
  };
  Allowed allowed(const Set& from, const Set& to) const;
  // Sets banned[token] to 1 for each token that is not allowed. ends: the tokens that end a text.
  void ban(const Allowed& allowed, const std::vector<int32_t>& ends,
           std::span<uint8_t> banned) const;

  const ByteAutomaton& bytes() const { return bytes_; }
  const TokenTrie& trie() const { return *trie_; }
  const TokenBytes& tokens() const { return trie_->bytes(); }
  int32_t classes() const { return classes_; }
  size_t memory() const; // bytes, without the trie

private:
  static uint64_t bit(int32_t state) { return uint64_t{1} << (state % 64); }
  void number_classes(const Task* task);
  void add_steps(const Task* task);

  // A class that is allowed in a state, and the state after it.
  struct Step {
    int32_t token_class, to;
  };

  ByteAutomaton bytes_;
  std::shared_ptr<const TokenTrie> trie_;
  int32_t classes_ = 0;
  std::vector<int32_t> class_of_;        // by token; -1: it is allowed in no state
  std::vector<int32_t> word_of_;         // by class: one of its words
  std::vector<std::vector<Step>> steps_; // by state of bytes_
  // By state of bytes_: the states that a token reaches, and the first word of the set with one and
  // the word after the last. A state that counts reaches a few states of many.
  std::vector<Set> reach_;
  std::vector<std::pair<uint32_t, uint32_t>> reach_words_;
};

} // namespace dllm::text

#pragma once
// A text constraint lets a request write only texts that match a pattern. Tokens are decided in any
// order, so a token is allowed only if tokens for all other open positions exist with which the
// whole text matches.
//
// A forward set holds the states of the automaton that the positions before a position can reach. A
// backward set holds the states from which the positions after it can end in a match. A token is
// allowed if it leads from a forward state to a backward state. DINGO (arXiv 2505.23061) has the
// same sets for the tokens of a block.

#include "generate/constraints/answer_constraint.h"
#include "text/automaton/token_automaton.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dllm::generate {

// It keeps the sets of the last canvas.
class TextConstraint final : public AnswerConstraint {
public:
  // begin: first position of the text. ends: the tokens that end it. may_end: one of them may be
  // drawn. what: what the text has to match, for errors.
  TextConstraint(std::shared_ptr<const text::TokenAutomaton> automaton, int64_t begin,
                 std::vector<int32_t> ends, bool may_end, std::string what = "");

  bool allows(const decode::Request& request, int64_t position, int32_t token) const override;
  decode::BanRow ban(const decode::Request& request, int64_t position,
                     const decode::BanRow& banned) const override;
  std::vector<decode::BanRow> bans(const decode::Request& request,
                                   std::span<const int64_t> positions, const decode::BanRow& banned,
                                   const Workers& workers) const override;

  bool can_match(const std::vector<int32_t>& given) const override;
  int64_t fewest_positions(int64_t most) const override;
  std::string what() const override;

private:
  using Set = text::TokenAutomaton::Set;

  // Takes the canvas, from which the sets are then made.
  void follow(const decode::Request& request) const;
  void take(const std::vector<int32_t>& given) const; // the same; -1 at open positions
  // Returns whether the token leads from a forward state of the position to a backward state.
  bool leads(int64_t position, int32_t token) const;
  const Set& forward(int64_t position) const;  // before the position
  const Set& backward(int64_t position) const; // after the positions from here to the end
  Set after_open(const Set& from, int64_t position) const;
  Set before_open(const Set& to, int64_t position) const;
  bool is_silent(int32_t token) const; // a given token that adds no bytes
  using SetPair = std::pair<Set, Set>; // before and after a position
  // Makes the bans of pairs of sets. Pairs that allow the same share a row.
  void make_bans(std::map<SetPair, decode::BanRow>& missing, const Workers& workers) const;
  decode::BanRow bans_at_start(int64_t position, const decode::BanRow& banned,
                               const Workers& workers) const;
  // Whether tokens have other bytes at this position, because nothing comes before it.
  bool is_at_start(int64_t position) const {
    return position == first_ && automaton_->tokens().has_other_starts();
  }

  std::shared_ptr<const text::TokenAutomaton> automaton_;
  int64_t begin_;
  std::vector<int32_t> ends_;
  bool may_end_;
  std::string what_;
  // The canvas whose sets are kept, with -1 at open positions.
  mutable std::vector<int32_t> canvas_;
  mutable int64_t first_ = -1; // first position that adds bytes to an empty text; -1: none does
  // forward_[i] is the set before position begin_ + i. The first forward_known_ + 1 are of canvas_.
  mutable std::vector<Set> forward_, backward_;
  mutable int64_t forward_known_ = 0;  // positions
  mutable int64_t backward_known_ = 0; // first position whose backward set is known
  // What ban() made of base_, by its sets and by what they allow. Steps and positions often have
  // equal sets. A pattern that counts has other sets at each position, which often allow the same.
  mutable std::map<SetPair, decode::BanRow> bans_;
  mutable std::map<text::TokenAutomaton::Allowed, decode::BanRow> rows_;
  mutable decode::BanRow base_;
};

} // namespace dllm::generate

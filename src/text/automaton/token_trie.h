#pragma once
// The tokens that may be drawn, as a tree of their bytes. Tokens with the same bytes are one word.

#include "base/task.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::text {

// The bytes that each token adds inside a text. Special tokens and unused ids add none.
class TokenBytes {
public:
  explicit TokenBytes(const Tokenizer& tokenizer, const Task* task = nullptr);

  const std::string& of(int32_t token) const { return bytes_[static_cast<size_t>(token)]; }
  // Returns the bytes that the token adds at the beginning of a text. A tokenizer that leaves out
  // the first space has others there.
  const std::string& at_start(int32_t token) const {
    const auto other = at_start_.find(token);
    return other == at_start_.end() ? of(token) : other->second;
  }
  bool has_other_starts() const { return !at_start_.empty(); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

private:
  std::vector<std::string> bytes_;
  std::map<int32_t, std::string> at_start_; // where they differ
};

class TokenTrie {
public:
  // banned: 1 for tokens that are not drawn. Ids beyond it are not drawn either. Empty: every token
  // may be drawn.
  TokenTrie(std::shared_ptr<const TokenBytes> bytes, std::span<const uint8_t> banned);

  const TokenBytes& bytes() const { return *bytes_; }
  int32_t words() const { return static_cast<int32_t>(first_.size() - 1); }
  // Returns the tokens of a word. Words are ascending by their bytes.
  std::span<const int32_t> tokens(int32_t word) const {
    const size_t begin = static_cast<size_t>(first_[static_cast<size_t>(word)]);
    const size_t end = static_cast<size_t>(first_[static_cast<size_t>(word) + 1]);
    return std::span(tokens_).subspan(begin, end - begin);
  }
  // Returns all tokens of the tree, word by word.
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // Reads every word from `state`. next(state, byte) returns the state after a byte, or a negative
  // number if no text goes on so. Calls found(word, state) with each word that was read to its end.
  template <class Next, class Found>
  void walk(int32_t state, const Next& next, const Found& found) const {
    // The states after 0, 1, ... bytes.
    std::vector<int32_t> path(static_cast<size_t>(depth_) + 1, state);
    for (size_t i = 0; i < nodes_.size();) {
      const Node& node = nodes_[i];
      const auto depth = static_cast<size_t>(node.depth);
      const int32_t to = next(path[depth - 1], node.byte);
      if (to < 0) {
        i = static_cast<size_t>(node.end);
        continue;
      }
      path[depth] = to;
      if (node.word >= 0) found(node.word, to);
      ++i;
    }
  }

private:
  // Nodes are in the order of their texts, so the nodes below one follow it up to `end`.
  struct Node {
    int32_t end;
    int32_t word;  // that ends here; -1: none
    int32_t depth; // bytes from the root
    uint8_t byte;
  };
  void add(std::string_view bytes, std::string_view last, std::vector<int32_t>& path);

  std::shared_ptr<const TokenBytes> bytes_;
  std::vector<int32_t> tokens_; // by word
  std::vector<int32_t> first_;  // of each word in tokens_, and the end
  std::vector<Node> nodes_;
  int32_t depth_ = 0;
};

} // namespace dllm::text

#include "text/automaton/token_trie.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dllm::text {

TokenBytes::TokenBytes(const Tokenizer& tokenizer, const Task* task) {
  const auto size = static_cast<size_t>(tokenizer.size());
  bytes_.resize(size);
  const DecodeOptions raw{.skip_special = true, .raw = true};
  std::vector<int32_t> pair = tokenizer.encode("a", EncodeOptions());
  pair = {pair.empty() ? 0 : pair.back(), 0}; // a token before the one that is read
  const std::string before = tokenizer.decode({pair.data(), 1}, raw);
  for (size_t i = 0; i < size; ++i) {
    if (i % 4096 == 0) check_task(task);
    const auto id = static_cast<int32_t>(i);
    if (tokenizer.is_special(id) || tokenizer.token(id).empty()) continue;
    pair[1] = id;
    const std::string text = tokenizer.decode(pair, raw);
    if (!text.starts_with(before)) continue;
    bytes_[i] = text.substr(before.size());
    std::string at_start = tokenizer.decode({&id, 1}, raw);
    if (at_start != bytes_[i]) at_start_.emplace(id, std::move(at_start));
  }
}

TokenTrie::TokenTrie(std::shared_ptr<const TokenBytes> bytes, std::span<const uint8_t> banned)
    : bytes_(std::move(bytes)) {
  for (int64_t i = 0; i < bytes_->size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    const bool is_drawn =
        banned.empty() || (i < std::ssize(banned) && banned[static_cast<size_t>(i)] == 0);
    if (is_drawn && !bytes_->of(token).empty()) tokens_.push_back(token);
  }
  std::ranges::sort(tokens_, [&](int32_t a, int32_t b) {
    return std::tie(bytes_->of(a), a) < std::tie(bytes_->of(b), b);
  });
  std::string_view last;
  std::vector<int32_t> path; // the nodes of `last`
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& own = bytes_->of(tokens_[i]);
    if (own == last) continue;
    first_.push_back(static_cast<int32_t>(i));
    add(own, last, path);
    last = own;
  }
  first_.push_back(static_cast<int32_t>(tokens_.size()));
  for (const int32_t node : path)
    nodes_[static_cast<size_t>(node)].end = static_cast<int32_t>(nodes_.size());
}

// Adds the nodes of a word that comes after `last`. path: the nodes of `last`, then of the word.
void TokenTrie::add(std::string_view bytes, std::string_view last, std::vector<int32_t>& path) {
  const auto shared = static_cast<size_t>(std::ranges::mismatch(bytes, last).in1 - bytes.begin());
  for (; path.size() > shared; path.pop_back())
    nodes_[static_cast<size_t>(path.back())].end = static_cast<int32_t>(nodes_.size());
  for (size_t i = shared; i < bytes.size(); ++i) {
    path.push_back(static_cast<int32_t>(nodes_.size()));
    nodes_.push_back({0, -1, static_cast<int32_t>(i + 1), static_cast<uint8_t>(bytes[i])});
  }
  nodes_.back().word = static_cast<int32_t>(first_.size() - 1);
  depth_ = std::max(depth_, static_cast<int32_t>(bytes.size()));
}

} // namespace dllm::text

#pragma once
// Adds special tokens around a text as the "post_processor" part of tokenizer.json says.

#include "text/json_reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// A sequence of tokens, and the segment of each token (0 or 1, as in BERT).
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
};

// A PostProcessor, the "post_processor" part of tokenizer.json, adds special tokens around a text.
class PostProcessor {
public:
  using Lookup = std::function<int32_t(std::string_view)>; // returns the id, or -1 without a token

  PostProcessor() = default; // adds no token
  // Fails with data_loss when a template names a token that does not exist.
  PostProcessor(const TreeJson& json, const std::string& where, const Lookup& lookup);

  Encoding single(std::vector<int32_t> ids) const;
  Encoding pair(std::vector<int32_t> first, std::vector<int32_t> second) const;
  // Adds only the tokens that single() adds before the text, unless the ids begin with them.
  std::vector<int32_t> begun(std::vector<int32_t> ids) const;

private:
  // A piece of a template: one of the two texts, or fixed ids.
  struct Part {
    int text; // 0 or 1; -1: ids
    std::vector<int32_t> ids;
    int32_t type;
  };
  using Template = std::vector<Part>;

  void read(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_sequence(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_template(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_around(const TreeJson& json, const std::string& where, bool roberta);

  Template single_{{0, {}, 0}};
  Template pair_{{0, {}, 0}, {1, {}, 1}};
};

} // namespace dllm::text

#pragma once
// Puts special tokens around what the text gave: the "post_processor" part of tokenizer.json.

#include "text/json_reader.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// One token sequence with the segment each token belongs to (0 or 1, as in BERT).
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
};

class PostProcessor {
public:
  using Lookup = std::function<int32_t(std::string_view)>; // -1: no such token

  PostProcessor() = default; // adds nothing
  // Fails with data_loss when a template names a token that is not there.
  PostProcessor(const TreeJson& json, const std::string& where, const Lookup& lookup);

  Encoding single(std::vector<int32_t> ids) const;
  Encoding pair(std::vector<int32_t> first, std::vector<int32_t> second) const;

private:
  // A piece of a template: one of the two texts, or fixed ids.
  struct Part {
    int text; // 0 or 1; -1: ids
    std::vector<int32_t> ids;
    int32_t type;
  };
  using Template = std::vector<Part>;

  void read(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_template(const TreeJson& json, const std::string& where, const Lookup& lookup);
  void read_around(const TreeJson& json, const std::string& where, bool roberta);

  Template single_{{0, {}, 0}};
  Template pair_{{0, {}, 0}, {1, {}, 1}};
};

} // namespace dllm::text

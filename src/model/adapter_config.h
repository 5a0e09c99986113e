#pragma once
// adapter_config.json of PEFT: each key is used, refused, or without effect on what an adapter computes.

#include "base/json.h"
#include "text/tokenizer/parts.h"

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dllm::model {

class ConfigReader;

enum class AdapterKeyUse {
  used,    // read, and checked against the tensors
  off,     // refused unless it is null, false or empty: it changes numbers
  harmless // any value: of training, or of a part that `off` refuses
};
struct AdapterKey {
  const char* name;
  AdapterKeyUse use;
};
std::span<const AdapterKey> adapter_keys(); // every key of LoraConfig in PEFT 0.21

class AdapterConfig {
public:
  // Fails with unimplemented for settings that compute something else, naming the key, and with invalid_argument for values
  // that no adapter has. Warns of a number or word under a key that PEFT 0.21 does not have.
  AdapterConfig(const Json& json, const std::string& file);

  int64_t rank() const { return rank_; }
  double alpha() const { return alpha_; } // the product is multiplied by alpha / rank
  // Whether the file chooses the modules that it adapts. Without it, PEFT has a list by family.
  bool chooses() const { return all_linear_ || targets_.given(); }
  bool is_all_linear() const { return all_linear_; } // all matrices of layers
  // Whether "model.layers.0.self_attn.q_proj" is adapted: target_modules, exclude_modules and layers_to_transform by PEFT's
  // rules. target_modules that is absent or all-linear names every module.
  bool names(const std::string& module) const;

private:
  // Of a list each word is a module's name or its end behind a dot; one string is a regular expression of the whole name.
  struct Words {
    std::vector<std::string> list;
    std::optional<text::Regex> pattern;
    bool given() const { return pattern || !list.empty(); }
    bool has(const std::string& module) const;
  };
  static Words words(const ConfigReader& reader, const char* key);
  void read_layers(const ConfigReader& reader);
  bool has_layer(const std::string& module) const;

  int64_t rank_ = 8;
  double alpha_ = 8;
  bool all_linear_ = false;
  Words targets_, excluded_;
  std::optional<std::set<int64_t>> layers_;
  std::vector<std::string>
      layer_words_; // "layers": the word in front of a layer's number; empty: any
};

} // namespace dllm::model

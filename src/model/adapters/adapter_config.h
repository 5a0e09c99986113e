#pragma once
// Reads adapter_config.json of PEFT. Each key is used, is refused, or has no effect on the numbers
// of an adapter.

#include "base/json.h"
#include "text/tokenizer/parts.h"

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// The prefix that PEFT puts before the name of a tensor.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

class ConfigReader;

enum class AdapterKeyUse {
  used,    // read, and checked against the tensors
  off,     // changes numbers: refused unless the value is null, false or empty
  harmless // any value: the key is for training, or for a part that `off` refuses
};
struct AdapterKey {
  const char* name;
  AdapterKeyUse use;
};
// Returns every key of LoraConfig in PEFT 0.21.
std::span<const AdapterKey> adapter_keys();

class AdapterConfig {
public:
  // Reads the keys. Fails with unimplemented, naming the key, for a setting that computes something
  // else. Fails with invalid_argument for a value that no adapter has. Warns of a number or text
  // under a key that PEFT 0.21 does not have.
  AdapterConfig(const Json& json, const std::string& file);

  int64_t rank() const { return rank_; }
  double alpha() const { return alpha_; } // a product is multiplied by alpha / rank
  // Returns true when the file names the modules that it adapts. Otherwise PEFT takes them from a
  // list by family.
  bool chooses() const { return all_linear_ || targets_.given(); }
  // Returns true when the adapter is for all matrices of layers.
  bool is_all_linear() const { return all_linear_; }
  // Returns true when `module`, such as "model.layers.0.self_attn.q_proj", is adapted. The rules of
  // PEFT apply to target_modules, exclude_modules and layers_to_transform. When target_modules is
  // absent or all-linear, every module passes it.
  bool names(const std::string& module) const;

private:
  // The words of target_modules or exclude_modules. Each word of a list is the whole name of a
  // module, or its end after a dot. A single string is a regular expression for the whole name.
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
  // "layers": the words before the number of a layer. An empty list allows any word.
  std::vector<std::string> layer_words_;
};

} // namespace dllm::model

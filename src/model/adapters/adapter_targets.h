#pragma once
// Chooses the modules of a model that an adapter is for, by the rules of PEFT.

#include "base/options.h"
#include "model/config.h"
#include "model/params/param_map.h"
#include "text/tokenizer/regex.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// The words that choose modules:
//     "q_proj"            every module with this name, or whose name ends in ".q_proj"
//     "q"                 every matrix that dllm names so: q k v o gate up down ...
//     "model.layers.*.mlp.*"     '*' stands for any text
//     "all-linear"        every matrix of a layer, except for routers and gates
class AdapterTargets {
public:
  AdapterTargets() : is_all_linear_(true) {}
  AdapterTargets(std::initializer_list<std::string> words);
  explicit AdapterTargets(const std::vector<std::string>& words);
  // Reads target_modules, exclude_modules, layers_to_transform and layers_pattern. An absent
  // target_modules chooses every module. A single word is a regular expression for the whole name.
  explicit AdapterTargets(const ConfigReader& reader);
  // Reads options targets, exclude and layers of kind "adapter". Fails with invalid_argument for a
  // range of layers that is not one.
  explicit AdapterTargets(const Options& options);

  // One matrix of a model: its module, and the name that dllm gives it.
  struct Module {
    std::string name; // "model.layers.0.self_attn.q_proj"
    std::string own;  // "q"
  };
  // Fails with not_found for a word of options targets and exclude that names none of the modules.
  // Fails with invalid_argument for a layer that the model lacks. `hint` lists the names that
  // exist. Words of a file are not checked, since PEFT takes any.
  void check(const std::vector<Module>& modules, int64_t layers, const std::string& hint) const;

  // Returns false when nothing names the modules. PEFT then takes them from a list by family.
  bool given() const { return is_all_linear_ || words_.given(); }
  bool is_all_linear() const { return is_all_linear_; }
  // Returns true when `module`, such as "model.layers.0.self_attn.q_proj", is chosen. all-linear
  // includes every module.
  bool has(const std::string& module) const;
  // The same for the module of a stack of a model, without the modules that all-linear leaves out.
  bool has(const ParamSpec& spec, const std::string& module) const;

private:
  struct Words {
    std::vector<std::string> list;
    std::optional<text::Regex> pattern;
    bool given() const { return pattern || !list.empty(); }
    bool has(const std::string& module) const;
  };
  static Words words_of(const ConfigReader& reader, const char* key);
  void take(const std::vector<std::string>& words);
  void read_layers(const ConfigReader& reader);
  bool has_layer(const std::string& module) const;
  bool is_chosen(const std::string& module, std::string_view own) const;

  bool is_all_linear_ = false;
  bool is_checked_ = false; // the words are options
  Words words_, excluded_;
  std::optional<std::set<int64_t>> layers_;
  // The words before the number of a layer, such as "layers". An empty list allows any word.
  std::vector<std::string> layer_words_;
};

// Returns the name that dllm gives the matrices of a stack, "q".
std::string_view own_name(const ParamSpec& spec);
// Returns the module of a matrix: "layers.0.mlp.up_proj.weight" -> "layers.0.mlp.up_proj".
std::string module_of_weight(const std::string& weight);

} // namespace dllm::model

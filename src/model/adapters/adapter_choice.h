#pragma once
// Chooses the stacks of a model's base that get an adapter, and the form of each layer.

#include "model/adapters/adapter.h"
#include "model/adapters/kinds/adapter_kind.h"
#include "model/params/param_store.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

class AdapterChoice {
public:
  // What an adapter has for one layer of a stack.
  enum class Use {
    none,    // the layer is not chosen
    changed, // tensors of its kind
    copied   // a copy of the layer
  };
  struct LayerForm {
    Use use = Use::none;
    AdapterForm form = {};
    friend bool operator==(const LayerForm&, const LayerForm&) = default;
  };
  struct Stack {
    size_t index;
    std::vector<LayerForm> layers; // one for each copy
  };

  // tied_head: the module of a head that is the embedding, "lm_head"; "": there is none. The
  // references outlive the choice.
  AdapterChoice(const ParamStore& params, const AdapterOptions& options, const AdapterKind& kind,
                const AdapterForms& forms, std::string tied_head)
      : params_(params), options_(options), kind_(kind), forms_(forms),
        tied_head_(std::move(tied_head)) {}

  // Returns the stacks with a chosen layer. Fails with unimplemented for one that cannot have an
  // adapter, and with not_found when no matrix is chosen.
  std::vector<Stack> stacks() const;
  // Fails for a word or a layer of the options that the model lacks. layers: of the base.
  void check_words(int64_t layers) const;
  // Fails with not_found for a pattern of the settings that matches no chosen module.
  void check_patterns() const;
  // Returns modules_to_save for PEFT: the whole names of the modules.
  std::vector<std::string> saved_modules() const;
  // Returns true when the adapter has a copy of a stack of the whole model, such as "embedding".
  bool saves(const std::string& stack) const;
  // Returns the layers where runs must be cut, so that each stack has one form.
  std::set<int64_t> borders() const;
  // Returns target_modules for PEFT, with their variants. A module that is chosen in every layer
  // that has it, in one variant, is listed by the end of its name, after the number of the layer.
  // Other modules are listed by their whole names.
  std::vector<AdapterWord> words() const;

private:
  // Returns true when the adapter has a copy of this layer of a stack.
  bool is_saved(const ParamSpec& spec, int64_t layer) const;
  LayerForm form_of(const ParamStore::Physical& entry, int64_t layer) const;
  // Calls visit(module, form) for each module that can have an adapter.
  template <class Visit> void each_module(const Visit& visit) const;
  std::string matrices() const; // "its matrices are down_proj, gate_proj"

  const ParamStore& params_;
  const AdapterOptions& options_;
  const AdapterKind& kind_;
  const AdapterForms& forms_;
  const std::string tied_head_;
};

// Returns the module of a head that is the embedding, "lm_head"; "": the head has numbers of its
// own, or its tensor has no name.
std::string tied_head_of(const ModelConfig& config);

} // namespace dllm::model

#pragma once
// A kind of adapter, as data: the tensors that it adds to a matrix of the base, what a pass and a
// merge make of them, its options, and its keys in the files of PEFT. All other files walk the
// table of kinds (adapter_kinds.h) and know no kind by its name.

#include "base/options.h"
#include "base/task.h"
#include "model/adapters/adapter_targets.h"
#include "model/config.h"
#include "model/network/linear.h"
#include "model/params/part.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// ---- the matrices of an adapter ----

// The numbers in which the matrices of one adapter differ. Runs of layers are cut where they
// change.
struct AdapterForm {
  int64_t rank = 0;
  double factor = 1; // of what is added, without the scale of the adapter
  int variant = 0;   // one of the ways of a kind, such as: multiplies inputs
  friend bool operator==(const AdapterForm&, const AdapterForm&) = default;
};

using AdapterModule = AdapterTargets::Module;

// Decides the form of each matrix of one adapter, from its settings.
class AdapterForms {
public:
  virtual ~AdapterForms() = default;
  virtual AdapterForm form(const AdapterModule& module) const = 0;
  // Returns the first pattern of the settings that matches none of these modules, as in
  // 'rank_pattern "q_prj"'; "" when each matches one.
  virtual std::string unmatched(const std::vector<AdapterModule>& modules) const = 0;
};

// A matrix (out, in) of the base. Of experts it is one of them.
struct AdaptedMatrix {
  AdapterForm form;
  int64_t out, in;
};

// What the first values of a tensor are made of.
struct FirstValues {
  const Shape& shape;      // of one matrix
  const std::string& name; // in files
  uint64_t seed;
  const float* matrix; // (out, in), for a tensor that reads it; else null
  int64_t out, in;
};

// A tensor that a kind adds to each matrix. Its array in a model is a stack over the layers.
struct AdapterTensor {
  std::string_view suffix; // of the stack's name, after the name of the base's stack: ".lora_a"
  // Of its name in files, after the name of the module; files may have the other one too.
  std::string_view ending, other_ending = {};
  // Returns the shape for one matrix; nothing when the matrix has no such tensor.
  std::optional<Shape> (*shape)(const AdaptedMatrix& matrix);
  bool is_of_inputs = false; // ranks cut it as the inputs of the matrix, else as the outputs
  // Returns the first values, with which the adapter changes nothing. Null: zeros.
  Tensor (*first)(const FirstValues& values) = nullptr;
  bool reads_matrix = false; // `first` reads the numbers of the matrix
  bool has_factor = false;   // its array carries AdapterForm::factor into passes
  bool has_scale = false;    // its array carries the scale and the weight of the adapter
  bool decays = true;        // has weight decay
  bool is_up = false;        // B of a product B A, whose rate LoRA+ raises
  bool is_of_flag = false;   // the flag of PeftLayout adds it to the files of the type
};

// ---- passes ----

// One adapter in a product x W^T.
struct AdapterPass {
  const Linear& linear;
  const Adapter& adapter;
  graph::Value x;         // (.., in)
  graph::Value base = {}; // x W^T, without the bias
};

// The functions of a kind in a product. A null function and an undefined result add nothing.
struct AdapterGraph {
  // Returns what is added to x before W.
  graph::Value (*input)(const AdapterPass& pass) = nullptr;
  // Returns what is added to x W^T.
  graph::Value (*output)(const AdapterPass& pass) = nullptr;
  // Returns what is added to the bias, f32(out).
  graph::Value (*bias)(const AdapterPass& pass, graph::Value bias) = nullptr;
  // Returns true when `output` reads AdapterPass::base.
  bool (*reads_base)(const Adapter& adapter) = nullptr;
  // Returns what is added to x W^T where each row of the batch has one of the adapters of the
  // linear, or none (Linear::choice). All of them have this kind. The numbers of a row are those
  // with its adapter alone. Null: rows of one pass have the same adapters.
  graph::Value (*by_row)(const Linear& linear, graph::Value x) = nullptr;
  // Returns what is added to the product of experts (rows, choices, out). Null: matrices of experts
  // cannot have the kind.
  graph::Value (*experts)(const AdapterPass& pass, graph::Value experts) = nullptr;
};

// ---- merges ----

// The tensors of one matrix on the host, by suffix.
struct AdapterNumbers {
  struct Entry {
    Tensor values; // f32
    float factor;  // of its array
  };
  std::map<std::string_view, Entry> entries;
  const Task* task;

  const Entry* find(std::string_view suffix) const; // null: the matrix has no such tensor
  const Entry& at(std::string_view suffix) const;
};

struct AdapterMergeRow {
  // Adds the change of a matrix: made += change of weight. Both are f32(out, in).
  void (*weight)(const AdapterNumbers& numbers, const Tensor& weight, Tensor& made);
  // The same for the bias f32(out). Null: the kind does not change it.
  void (*bias)(const AdapterNumbers& numbers, const Tensor& bias, Tensor& made) = nullptr;
  // What makes the change depend on the numbers of W, as in "its lengths depend on"; null: it does
  // not.
  const char* reads_weights = nullptr;
};

// ---- files of PEFT ----

enum class AdapterKeyUse {
  used,    // read, and checked against the tensors
  off,     // changes numbers: refused unless the value is null, false or empty
  harmless // any value: the key is for training, or for a part that `off` refuses
};
struct AdapterKey {
  const char* name;
  AdapterKeyUse use;
};
constexpr AdapterKey used_key(const char* name) {
  return {name, AdapterKeyUse::used};
}
constexpr AdapterKey off_key(const char* name) {
  return {name, AdapterKeyUse::off};
}
constexpr AdapterKey harmless_key(const char* name) {
  return {name, AdapterKeyUse::harmless};
}

struct PeftLayout {
  const char* type; // "LORA": key peft_type of adapter_config.json
  const char* flag; // a key that chooses the kind among those of the type when it is true; or null
  // The keys of its class of configs in PEFT, without those of every class. A kind with a flag has
  // none of its own.
  std::span<const AdapterKey> keys;
  // Reads and checks the values of the keys, except for modules and the flag.
  void (*read)(const ConfigReader& reader, AdapterSettings& settings);
  // Adds the keys and values, except for modules and a flag that is true.
  void (*write)(const AdapterSettings& settings, Json& config);
  const char* shape_hint; // says which keys decide the shapes
};

// ---- a kind ----

// A word of the settings' targets, and the variant of its modules.
struct AdapterWord {
  std::string text;
  int variant;
};

struct AdapterKind {
  const char* name;  // value of option kind: "lora"
  const char* title; // name in errors: "LoRA"
  // An option true or false that chooses the kind in place of another one of its PEFT type; or
  // null.
  const char* flag;
  const char* leave_out; // hint of an error: "leave dora out"
  std::span<const AdapterTensor> tensors;
  // Returns the options of the kind. Kinds may share options. They are texts, lists, numbers and
  // choices, and no paths: scripts may set them at every level.
  std::vector<OptionSpec> (*options)();
  void (*read_options)(const Options& options, AdapterSettings& settings);
  // Fails with invalid_argument for settings that no adapter has. `what` names them in errors.
  std::unique_ptr<AdapterForms> (*forms)(const AdapterSettings& settings, const std::string& what);
  // Finishes the settings of an adapter whose modules are known. Null: nothing is left to do.
  void (*complete)(AdapterSettings& settings, std::span<const AdapterWord> words);
  // Adds what a list of adapters says of this kind alone. Null: nothing.
  void (*describe)(const AdapterSettings& settings, Json& row);
  AdapterGraph graph;
  AdapterMergeRow merge;
  PeftLayout peft;

  // Returns the tensor whose suffix ends the name of a stack; null: there is none.
  const AdapterTensor* find_tensor(std::string_view stack) const;
};

} // namespace dllm::model

#pragma once
// Adapters of a model: each chosen matrix gets the small tensors of a kind (kinds/), such as A and
// B of LoRA. The kind says how they change the product. The base is frozen, and they are trained.

#include "base/options.h"
#include "base/task.h"
#include "model/adapters/adapter_targets.h"
#include "model/model.h"
#include "tensor/box.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace dllm::model {

struct AdapterOptions {
  AdapterTargets targets;
  AdapterSettings settings;
  uint64_t seed = 0;
  std::string name = "default"; // makes the part "adapter:<name>"
};

// The schema "adapter": kind, the options of all kinds, targets exclude layers modules_to_save
// seed.
const Schema& adapter_schema();
// Returns the options of kind "adapter".
AdapterOptions adapter_options(const std::string& name, const Options& options);

// Returns the part of an adapter, "adapter:<name>", and its name.
std::string adapter_part(std::string_view name);
// Fails with invalid_argument for a name with other characters than letters, digits, _ and -.
void check_adapter_name(const std::string& name);
std::string adapter_name(std::string_view part);
// Returns the part of an adapter. Fails with not_found and the names of the adapters there are.
std::shared_ptr<const Part> find_adapter(const Model& model, const std::string& name);

// Adds an adapter as a part of the model. "model.layers.0.self_attn.q_proj.weight" gets the tensors
// of the kind, for LoRA "model.layers.0.self_attn.q_proj.lora_A.weight" (rank, in), uniform in
// +-1/sqrt(in), and lora_B.weight (out, rank), zero. A module of modules_to_save gets an f32 copy,
// which passes read in place of the base's. So the results of the model do not change. A pass that
// reads several adapters adds all their changes of a product. Runs of layers are cut where an
// adapter begins, ends or changes its form. Version + 1.
// A copy of an embedding that is also the head stands for both.
// Fails with not_found when the targets choose nothing, and for a word or a layer of the options
// that the model lacks (AdapterTargets::check). Fails with unimplemented when a word names an
// embedding, the head or part of a stack. Fails with already_exists when the model has an adapter
// of that name. When the call fails or is cancelled, the model is unchanged. `read` returns the
// numbers of a matrix: its logical name, its `whole` shape, and the part in `box`. Without `read`,
// or for an undefined tensor, the matrix gets first values. Each process of an engine may call it
// for its parts. An adapter of a sketch has shapes and no numbers.
using ReadAdapter =
    std::function<Tensor(const std::string& name, const Shape& whole, const Box& box)>;
void add_adapter(Model& model, const AdapterOptions& options, const ReadAdapter& read = nullptr,
                 const Task* task = nullptr);

// Multiplies the changes that an adapter makes by `scale` from now on; 0 turns it off. Version + 1.
// Fails with not_found, and with invalid_argument for a number that is not finite.
void set_adapter_scale(Model& model, const std::string& name, double scale);
// Removes an adapter. Version + 1. Fails with not_found.
void remove_adapter(Model& model, const std::string& name);
// Adds the change of an adapter to the weights, as W += factor B A, in the format of W, and removes
// the adapter. Version + 1. Fails with not_found, and with failed_precondition when the change of
// another adapter depends on the weights, as that of DoRA does. When the call fails or is
// cancelled, the model is unchanged.
void merge_adapter(Model& model, const std::string& name, const Task* task = nullptr);
// Returns true when training drops inputs of an adapter of the model.
bool has_dropout(const Model& model);
// Fails with invalid_argument for a weight other than 0 and 1 when the adapter has modules of its
// own.
void check_weight(const Part& adapter, double weight);
// Merges every adapter of the model at once.
void merge_adapters(Model& model, const Task* task = nullptr);

// Returns a list of adapters: name, kind, rank, alpha, rslora, the flags of kinds (dora), dropout,
// modules_to_save, what the kind describes, scale, modules (number of matrices), params and bytes.
Json list_adapters(const Model& model);

} // namespace dllm::model

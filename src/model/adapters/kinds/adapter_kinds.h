#pragma once
// The table of the kinds of adapters. A new kind is a file in this folder, and its name appears
// twice in kind_table.h.

#include "model/adapters/kinds/adapter_kind.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::model {

// Returns the table, in the order of the choices of option kind.
std::span<const AdapterKind* const> adapter_kinds();
// Returns the kind of this name. Fails with not_found and the list of names.
const AdapterKind& find_adapter_kind(std::string_view name);

// Returns true for the name of a stack that an adapter adds to a matrix, "layers.q.lora_a". The
// other stacks of an adapter stand for those of the base with the same names.
bool is_adapter_tensor(std::string_view stack);
// Returns whether such a stack has weight decay.
bool adapter_tensor_decays(std::string_view stack);
// Returns whether such a stack is B of a product B A.
bool adapter_tensor_is_up(std::string_view stack);

// Returns the options of all kinds, without repetition. Their group is kAdapterGroup.
std::vector<OptionSpec> adapter_kind_options();
inline constexpr const char* kAdapterGroup = "kind";
// Returns the kind that the options of an adapter choose. Fails with invalid_argument for an option
// that has a value and is one of other kinds.
const AdapterKind& chosen_adapter_kind(const Options& options);

} // namespace dllm::model

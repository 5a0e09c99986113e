#pragma once
// The methods of the class DecodedText as a table, and their calls from Godot: with Variants, as scripts without types do,
// and with bare values ("ptrcall").

#include "decoded_text.h"

#include <gdextension_interface.h>

#include <span>
#include <variant>
#include <vector>

namespace dllm_godot {

using Value = std::variant<bool, int64_t, double, std::string>;

struct Parameter {
  const char* name;
  GDExtensionVariantType type;
};

// One instance of the class: what scripts call, and the error of the last call that failed.
struct Instance {
  DecodedText text;
  std::string error;
};

struct Method {
  const char* name;
  GDExtensionVariantType result;
  std::vector<Parameter> parameters;
  Value on_error; // returned by a call that failed
  Value (*run)(Instance& instance, std::span<const Value> arguments);
};

const std::vector<Method>& methods();

// GDExtensionClassMethodCall and GDExtensionClassMethodPtrCall; user_data is the Method.
void call_with_variants(void* user_data, GDExtensionClassInstancePtr instance,
                        const GDExtensionConstVariantPtr* arguments, GDExtensionInt count,
                        GDExtensionVariantPtr result, GDExtensionCallError* error);
void call_with_values(void* user_data, GDExtensionClassInstancePtr instance,
                      const GDExtensionConstTypePtr* arguments, GDExtensionTypePtr result);

} // namespace dllm_godot

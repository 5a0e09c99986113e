#include "methods.h"

#include "host.h"

#include <optional>

namespace dllm_godot {
namespace {

constexpr auto kBool = GDEXTENSION_VARIANT_TYPE_BOOL;
constexpr auto kInt = GDEXTENSION_VARIANT_TYPE_INT;
constexpr auto kFloat = GDEXTENSION_VARIANT_TYPE_FLOAT;
constexpr auto kString = GDEXTENSION_VARIANT_TYPE_STRING;

const std::string& text_at(std::span<const Value> arguments, size_t i) {
  return std::get<std::string>(arguments[i]);
}

// Exceptions end here: the message goes into Godot's list of errors and is kept for error().
Value run(const Method& method, Instance& instance, std::span<const Value> arguments) {
  try {
    return method.run(instance, arguments);
  } catch (const dllm::Error& problem) {
    instance.error = problem.what();
    if (!problem.hint().empty()) instance.error += "\n" + problem.hint();
  } catch (const std::exception& problem) {
    instance.error = problem.what();
  }
  host.print_error_with_message(method.name, instance.error.c_str(), method.name, "DecodedText", 0,
                                1);
  return method.on_error;
}

Value value_at(GDExtensionVariantType type, GDExtensionConstTypePtr place) {
  const void* bytes = place;
  if (type == kBool) return *static_cast<const GDExtensionBool*>(bytes) != 0;
  if (type == kInt) return *static_cast<const int64_t*>(bytes);
  if (type == kFloat) return *static_cast<const double*>(bytes);
  return utf8_of(static_cast<GDExtensionConstStringPtr>(bytes));
}

template <class T> T taken(GDExtensionVariantType type, GDExtensionConstVariantPtr variant) {
  T value{};
  void* place = &value;
  host.get_variant_to_type_constructor(type)(static_cast<GDExtensionUninitializedTypePtr>(place),
                                             const_cast<GDExtensionVariantPtr>(variant));
  return value;
}

// The argument as its parameter's type; nothing when it is of another one. A whole number is a float too.
std::optional<Value> converted(GDExtensionVariantType wanted, GDExtensionConstVariantPtr variant) {
  const GDExtensionVariantType type = host.variant_get_type(variant);
  if (wanted == kFloat && type == kInt) return static_cast<double>(taken<int64_t>(type, variant));
  if (type != wanted) return std::nullopt;
  if (type == kBool) return taken<GDExtensionBool>(type, variant) != 0;
  if (type == kInt) return taken<int64_t>(type, variant);
  if (type == kFloat) return taken<double>(type, variant);
  Text text(""); // is replaced by a String that it then owns
  host.variant_get_ptr_destructor(kString)(reinterpret_cast<GDExtensionTypePtr>(text.get()));
  host.get_variant_to_type_constructor(kString)(
      reinterpret_cast<GDExtensionUninitializedTypePtr>(text.get()),
      const_cast<GDExtensionVariantPtr>(variant));
  return utf8_of(text.get());
}

// A new Variant in the place, which holds none.
void put_variant(const Value& value, GDExtensionVariantPtr place) {
  const auto put = [&](GDExtensionVariantType type, void* raw) {
    host.get_variant_from_type_constructor(type)(
        reinterpret_cast<GDExtensionUninitializedVariantPtr>(place),
        static_cast<GDExtensionTypePtr>(raw));
  };
  if (const auto* yes = std::get_if<bool>(&value)) {
    GDExtensionBool raw = *yes ? 1 : 0;
    put(kBool, &raw);
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    int64_t raw = *whole;
    put(kInt, &raw);
  } else if (const auto* real = std::get_if<double>(&value)) {
    double raw = *real;
    put(kFloat, &raw);
  } else {
    Text text(std::get<std::string>(value));
    put(kString, text.get());
  }
}

// The bare value in the place; a String there is replaced.
void put_value(const Value& value, GDExtensionTypePtr place) {
  void* raw = place;
  if (const auto* yes = std::get_if<bool>(&value)) {
    *static_cast<GDExtensionBool*>(raw) = *yes ? 1 : 0;
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    *static_cast<int64_t*>(raw) = *whole;
  } else if (const auto* real = std::get_if<double>(&value)) {
    *static_cast<double*>(raw) = *real;
  } else {
    const std::string& text = std::get<std::string>(value);
    host.variant_get_ptr_destructor(kString)(place);
    host.string_new_with_utf8_chars_and_len(
        reinterpret_cast<GDExtensionUninitializedStringPtr>(place), text.data(),
        static_cast<GDExtensionInt>(text.size()));
  }
}

Instance& instance_of(GDExtensionClassInstancePtr instance) {
  return *reinterpret_cast<Instance*>(instance);
}

} // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> kMethods = {
      {"load",
       kBool,
       {{"path", kString}, {"threads", kInt}, {"options", kString}},
       false,
       [](Instance& instance, std::span<const Value> arguments) -> Value {
         instance.text.load(text_at(arguments, 0), std::get<int64_t>(arguments[1]),
                            text_at(arguments, 2));
         return true;
       }},
      {"say",
       kBool,
       {{"prompt", kString}, {"seed", kInt}},
       false,
       [](Instance& instance, std::span<const Value> arguments) -> Value {
         instance.text.say(text_at(arguments, 0), std::get<int64_t>(arguments[1]));
         return true;
       }},
      {"step_for",
       kBool,
       {{"budget_ms", kFloat}},
       false,
       [](Instance& instance, std::span<const Value> arguments) -> Value {
         return instance.text.step_for(std::get<double>(arguments[0]));
       }},
      {"is_busy",
       kBool,
       {},
       false,
       [](Instance& instance, std::span<const Value>) -> Value { return instance.text.is_busy(); }},
      {"text",
       kString,
       {},
       std::string(),
       [](Instance& instance, std::span<const Value>) -> Value { return instance.text.text(); }},
      {"error",
       kString,
       {},
       std::string(),
       [](Instance& instance, std::span<const Value>) -> Value { return instance.error; }},
  };
  return kMethods;
}

void call_with_variants(void* user_data, GDExtensionClassInstancePtr instance,
                        const GDExtensionConstVariantPtr* arguments, GDExtensionInt count,
                        GDExtensionVariantPtr result, GDExtensionCallError* error) {
  const auto& method = *static_cast<const Method*>(user_data);
  const auto wanted = static_cast<GDExtensionInt>(method.parameters.size());
  *error = {GDEXTENSION_CALL_OK, 0, 0};
  if (count != wanted) {
    *error = {count < wanted ? GDEXTENSION_CALL_ERROR_TOO_FEW_ARGUMENTS
                             : GDEXTENSION_CALL_ERROR_TOO_MANY_ARGUMENTS,
              static_cast<int32_t>(count), static_cast<int32_t>(wanted)};
    return;
  }
  std::vector<Value> values;
  for (size_t i = 0; i < method.parameters.size(); ++i) {
    const GDExtensionVariantType type = method.parameters[i].type;
    std::optional<Value> value = converted(type, arguments[i]);
    if (!value) {
      *error = {GDEXTENSION_CALL_ERROR_INVALID_ARGUMENT, static_cast<int32_t>(i),
                static_cast<int32_t>(type)};
      return;
    }
    values.push_back(std::move(*value));
  }
  put_variant(run(method, instance_of(instance), values), result);
}

void call_with_values(void* user_data, GDExtensionClassInstancePtr instance,
                      const GDExtensionConstTypePtr* arguments, GDExtensionTypePtr result) {
  const auto& method = *static_cast<const Method*>(user_data);
  std::vector<Value> values;
  for (size_t i = 0; i < method.parameters.size(); ++i)
    values.push_back(value_at(method.parameters[i].type, arguments[i]));
  put_value(run(method, instance_of(instance), values), result);
}

} // namespace dllm_godot

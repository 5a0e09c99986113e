#include "bindings/godot/fake_godot.h"

namespace fake {

std::map<std::string, Class> classes;
std::vector<std::string> errors;
int64_t live_strings = 0, live_objects = 0;
std::string hidden;

namespace {

std::string* new_string(std::string text) {
  ++live_strings;
  return new std::string(std::move(text));
}

void delete_string(std::string* text) {
  --live_strings;
  delete text;
}

// Strings and StringNames are a pointer in the extension's memory.
std::string*& string_at(const void* place) {
  return *static_cast<std::string**>(const_cast<void*>(place));
}

const Variant& variant_at(const void* place) {
  return *static_cast<const Variant*>(place);
}

void print_error(const char*, const char* message, const char*, const char*, int32_t,
                 GDExtensionBool) {
  errors.emplace_back(message);
}

GDExtensionVariantType type_of(GDExtensionConstVariantPtr value) {
  return static_cast<GDExtensionVariantType>(variant_at(value).type);
}

void destroy_string(GDExtensionTypePtr place) {
  delete_string(string_at(place));
}

GDExtensionPtrDestructor destructor_of(GDExtensionVariantType) {
  return destroy_string;
}

template <class T>
void from_type(GDExtensionUninitializedVariantPtr place, GDExtensionTypePtr raw) {
  void* value = raw;
  if constexpr (std::is_same_v<T, std::string>) {
    *reinterpret_cast<Variant*>(place) = variant(string_at(value)->c_str());
  } else if constexpr (std::is_same_v<T, bool>) {
    *reinterpret_cast<Variant*>(place) = variant(*static_cast<GDExtensionBool*>(value) != 0);
  } else {
    *reinterpret_cast<Variant*>(place) = variant(*static_cast<T*>(value));
  }
}

template <class T>
void to_type(GDExtensionUninitializedTypePtr place, GDExtensionVariantPtr value) {
  const Variant& from = variant_at(value);
  void* raw = place;
  if constexpr (std::is_same_v<T, std::string>) {
    string_at(raw) = new_string(*from.text);
  } else if constexpr (std::is_same_v<T, bool>) {
    *static_cast<GDExtensionBool*>(raw) = from.yes;
  } else if constexpr (std::is_same_v<T, double>) {
    *static_cast<double*>(raw) = from.real;
  } else {
    *static_cast<int64_t*>(raw) = from.whole;
  }
}

GDExtensionVariantFromTypeConstructorFunc variant_from(GDExtensionVariantType type) {
  if (type == GDEXTENSION_VARIANT_TYPE_BOOL) return from_type<bool>;
  if (type == GDEXTENSION_VARIANT_TYPE_INT) return from_type<int64_t>;
  if (type == GDEXTENSION_VARIANT_TYPE_FLOAT) return from_type<double>;
  return from_type<std::string>;
}

GDExtensionTypeFromVariantConstructorFunc variant_to(GDExtensionVariantType type) {
  if (type == GDEXTENSION_VARIANT_TYPE_BOOL) return to_type<bool>;
  if (type == GDEXTENSION_VARIANT_TYPE_INT) return to_type<int64_t>;
  if (type == GDEXTENSION_VARIANT_TYPE_FLOAT) return to_type<double>;
  return to_type<std::string>;
}

void new_text(GDExtensionUninitializedStringPtr place, const char* utf8, GDExtensionInt size) {
  string_at(place) = new_string(std::string(utf8, static_cast<size_t>(size)));
}

GDExtensionInt text_bytes(GDExtensionConstStringPtr text, char* to, GDExtensionInt room) {
  const std::string& content = *string_at(text);
  if (to != nullptr) content.copy(to, static_cast<size_t>(room));
  return static_cast<GDExtensionInt>(content.size());
}

void new_name(GDExtensionUninitializedStringNamePtr place, const char* utf8) {
  string_at(place) = new_string(utf8);
}

GDExtensionObjectPtr construct(GDExtensionConstStringNamePtr class_name) {
  ++live_objects;
  return reinterpret_cast<GDExtensionObjectPtr>(new Object{*string_at(class_name), "", nullptr});
}

void set_instance(GDExtensionObjectPtr object, GDExtensionConstStringNamePtr class_name,
                  GDExtensionClassInstancePtr instance) {
  auto* mine = reinterpret_cast<Object*>(object);
  mine->class_name = *string_at(class_name);
  mine->instance = instance;
}

void add_class(GDExtensionClassLibraryPtr, GDExtensionConstStringNamePtr name,
               GDExtensionConstStringNamePtr parent, const GDExtensionClassCreationInfo2* info) {
  classes[*string_at(name)] = {*string_at(parent), *info, {}};
}

void add_method(GDExtensionClassLibraryPtr, GDExtensionConstStringNamePtr class_name,
                const GDExtensionClassMethodInfo* info) {
  Method method{info->method_userdata,
                info->call_func,
                info->ptrcall_func,
                info->return_value_info->type,
                {}};
  for (uint32_t i = 0; i < info->argument_count; ++i) {
    const GDExtensionPropertyInfo& parameter = info->arguments_info[i];
    if (!string_at(parameter.name)->empty() && string_at(parameter.class_name)->empty() &&
        string_at(parameter.hint_string)->empty()) // all of them have to be strings
      method.parameters.push_back(parameter.type);
  }
  classes.at(*string_at(class_name)).methods[*string_at(info->name)] = method;
}

void remove_class(GDExtensionClassLibraryPtr, GDExtensionConstStringNamePtr name) {
  classes.erase(*string_at(name));
}

template <class F> GDExtensionInterfaceFunctionPtr pointer(F* function) {
  return reinterpret_cast<GDExtensionInterfaceFunctionPtr>(reinterpret_cast<void*>(function));
}

} // namespace

GDExtensionInterfaceFunctionPtr get_proc_address(const char* name) {
  static const std::map<std::string, GDExtensionInterfaceFunctionPtr> kFunctions = {
      {"print_error_with_message", pointer(print_error)},
      {"variant_get_type", pointer(type_of)},
      {"get_variant_from_type_constructor", pointer(variant_from)},
      {"get_variant_to_type_constructor", pointer(variant_to)},
      {"variant_get_ptr_destructor", pointer(destructor_of)},
      {"string_new_with_utf8_chars_and_len", pointer(new_text)},
      {"string_to_utf8_chars", pointer(text_bytes)},
      {"string_name_new_with_utf8_chars", pointer(new_name)},
      {"classdb_construct_object", pointer(construct)},
      {"object_set_instance", pointer(set_instance)},
      {"classdb_register_extension_class2", pointer(add_class)},
      {"classdb_register_extension_class_method", pointer(add_method)},
      {"classdb_unregister_extension_class", pointer(remove_class)},
  };
  const auto found = kFunctions.find(name);
  return found == kFunctions.end() || name == hidden ? nullptr : found->second;
}

Variant variant(bool yes) {
  Variant value;
  value.type = GDEXTENSION_VARIANT_TYPE_BOOL;
  value.yes = yes ? 1 : 0;
  return value;
}

Variant variant(int64_t whole) {
  Variant value;
  value.type = GDEXTENSION_VARIANT_TYPE_INT;
  value.whole = whole;
  return value;
}

Variant variant(double real) {
  Variant value;
  value.type = GDEXTENSION_VARIANT_TYPE_FLOAT;
  value.real = real;
  return value;
}

Variant variant(const char* text) {
  Variant value;
  value.type = GDEXTENSION_VARIANT_TYPE_STRING;
  value.text = new_string(text);
  return value;
}

void destroy(Variant& value) {
  if (value.type == GDEXTENSION_VARIANT_TYPE_STRING) delete_string(value.text);
  value = {};
}

Object* create(const std::string& class_name) {
  return reinterpret_cast<Object*>(classes.at(class_name).functions.create_instance_func(nullptr));
}

void free_object(const std::string& class_name, Object* object) {
  classes.at(class_name).functions.free_instance_func(nullptr, object->instance);
  --live_objects;
  delete object;
}

Variant call(Object* object, const std::string& method, std::vector<Variant> arguments,
             GDExtensionCallError& error) {
  const Method& found = classes.at(object->class_name).methods.at(method);
  std::vector<GDExtensionConstVariantPtr> places;
  for (Variant& value : arguments)
    places.push_back(reinterpret_cast<GDExtensionConstVariantPtr>(&value));
  Variant result;
  found.call(found.user_data, object->instance, places.data(),
             static_cast<GDExtensionInt>(places.size()),
             reinterpret_cast<GDExtensionVariantPtr>(&result), &error);
  for (Variant& value : arguments) destroy(value);
  return result;
}

Text::Text(const char* utf8) : content(new_string(utf8)) {}

Text::~Text() {
  delete_string(content);
}

} // namespace fake

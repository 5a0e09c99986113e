#include "host.h"

#include <type_traits>

namespace dllm_godot {

Host host;

namespace {

void destroy_value(GDExtensionVariantType type, void* place) {
  host.variant_get_ptr_destructor(type)(static_cast<GDExtensionTypePtr>(place));
}

} // namespace

const char* Host::find(GDExtensionInterfaceGetProcAddress get_proc_address) {
  const char* missing = nullptr;
  const auto take = [&](auto& function, const char* name) {
    const GDExtensionInterfaceFunctionPtr found = get_proc_address(name);
    if (found == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        reinterpret_cast<void*>(found));
  };
  take(print_error_with_message, "print_error_with_message");
  take(variant_get_type, "variant_get_type");
  take(get_variant_from_type_constructor, "get_variant_from_type_constructor");
  take(get_variant_to_type_constructor, "get_variant_to_type_constructor");
  take(variant_get_ptr_destructor, "variant_get_ptr_destructor");
  take(string_new_with_utf8_chars_and_len, "string_new_with_utf8_chars_and_len");
  take(string_to_utf8_chars, "string_to_utf8_chars");
  take(string_name_new_with_utf8_chars, "string_name_new_with_utf8_chars");
  take(classdb_construct_object, "classdb_construct_object");
  take(object_set_instance, "object_set_instance");
  take(classdb_register_extension_class2, "classdb_register_extension_class2");
  take(classdb_register_extension_class_method, "classdb_register_extension_class_method");
  take(classdb_unregister_extension_class, "classdb_unregister_extension_class");
  return missing;
}

Text::Text(const std::string& utf8) {
  host.string_new_with_utf8_chars_and_len(
      reinterpret_cast<GDExtensionUninitializedStringPtr>(&place_), utf8.data(),
      static_cast<GDExtensionInt>(utf8.size()));
}

Text::~Text() {
  destroy_value(GDEXTENSION_VARIANT_TYPE_STRING, &place_);
}

Name::Name(const char* utf8) {
  host.string_name_new_with_utf8_chars(
      reinterpret_cast<GDExtensionUninitializedStringNamePtr>(&place_), utf8);
}

Name::~Name() {
  destroy_value(GDEXTENSION_VARIANT_TYPE_STRING_NAME, &place_);
}

std::string utf8_of(GDExtensionConstStringPtr text) {
  std::string utf8(static_cast<size_t>(host.string_to_utf8_chars(text, nullptr, 0)), '\0');
  host.string_to_utf8_chars(text, utf8.data(), static_cast<GDExtensionInt>(utf8.size()));
  return utf8;
}

} // namespace dllm_godot

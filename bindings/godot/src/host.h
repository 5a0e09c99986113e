#pragma once
// The functions of Godot that the extension calls, and its strings. Only what Godot 4.2 has: later versions keep it.

#include <gdextension_interface.h>

#include <string>

namespace dllm_godot {

struct Host {
  GDExtensionClassLibraryPtr library = nullptr;
  GDExtensionInterfacePrintErrorWithMessage print_error_with_message = nullptr;
  GDExtensionInterfaceVariantGetType variant_get_type = nullptr;
  GDExtensionInterfaceGetVariantFromTypeConstructor get_variant_from_type_constructor = nullptr;
  GDExtensionInterfaceGetVariantToTypeConstructor get_variant_to_type_constructor = nullptr;
  GDExtensionInterfaceVariantGetPtrDestructor variant_get_ptr_destructor = nullptr;
  GDExtensionInterfaceStringNewWithUtf8CharsAndLen string_new_with_utf8_chars_and_len = nullptr;
  GDExtensionInterfaceStringToUtf8Chars string_to_utf8_chars = nullptr;
  GDExtensionInterfaceStringNameNewWithUtf8Chars string_name_new_with_utf8_chars = nullptr;
  GDExtensionInterfaceClassdbConstructObject classdb_construct_object = nullptr;
  GDExtensionInterfaceObjectSetInstance object_set_instance = nullptr;
  GDExtensionInterfaceClassdbRegisterExtensionClass2 classdb_register_extension_class2 = nullptr;
  GDExtensionInterfaceClassdbRegisterExtensionClassMethod classdb_register_extension_class_method =
      nullptr;
  GDExtensionInterfaceClassdbUnregisterExtensionClass classdb_unregister_extension_class = nullptr;

  // The name of a function that this Godot lacks; NULL when all were found.
  const char* find(GDExtensionInterfaceGetProcAddress get_proc_address);
};

// Filled by the entry function, before anything else runs.
extern Host host;

// A String of Godot.
class Text {
public:
  explicit Text(const std::string& utf8);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  GDExtensionStringPtr get() { return reinterpret_cast<GDExtensionStringPtr>(&place_); }

private:
  void* place_ = nullptr; // a String is as large as a pointer
};

// A StringName of Godot: of classes, methods and parameters.
class Name {
public:
  explicit Name(const char* utf8);
  ~Name();
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  GDExtensionStringNamePtr get() { return reinterpret_cast<GDExtensionStringNamePtr>(&place_); }

private:
  void* place_ = nullptr;
};

std::string utf8_of(GDExtensionConstStringPtr text);

} // namespace dllm_godot

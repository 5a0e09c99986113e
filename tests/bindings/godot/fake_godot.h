#pragma once
// As much of Godot as bindings/godot calls: strings, variants, classes. It counts what lives, so
// that a leak is seen.

#include <gdextension_interface.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake {

struct Variant { // 24 bytes, as in Godot
  int64_t type = GDEXTENSION_VARIANT_TYPE_NIL;
  union {
    GDExtensionBool yes;
    int64_t whole;
    double real;
    std::string* text;
  };
  int64_t unused = 0;
};
static_assert(sizeof(Variant) == 24);

Variant variant(bool yes);
Variant variant(int64_t whole);
Variant variant(double real);
Variant variant(const char* text);
void destroy(Variant& value);

struct Method {
  void* user_data;
  GDExtensionClassMethodCall call;
  GDExtensionClassMethodPtrCall ptrcall;
  GDExtensionVariantType result;
  std::vector<GDExtensionVariantType> parameters;
};

struct Class {
  std::string parent;
  GDExtensionClassCreationInfo2 functions;
  std::map<std::string, Method> methods;
};

struct Object {
  std::string base;
  std::string class_name;
  GDExtensionClassInstancePtr instance = nullptr;
};

extern std::map<std::string, Class> classes;
extern std::vector<std::string> errors; // of print_error_with_message
extern int64_t live_strings;            // Strings, StringNames and Strings in Variants
extern int64_t live_objects;

// What the extension gets. A function named `hidden` is not there.
extern std::string hidden;
GDExtensionInterfaceFunctionPtr get_proc_address(const char* name);

Object* create(const std::string& class_name);
void free_object(const std::string& class_name, Object* object);

// With Variants, as a script without types; result and error are those of the method.
Variant call(Object* object, const std::string& method, std::vector<Variant> arguments,
             GDExtensionCallError& error);

// A String as Godot passes it by pointer.
struct Text {
  explicit Text(const char* utf8);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  std::string* content;
};

} // namespace fake

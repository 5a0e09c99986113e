// The entry of the extension: registers the class DecodedText and its methods, and takes it away at the end.

#include "host.h"
#include "methods.h"

#include <cstdio>
#include <deque>

namespace dllm_godot {
namespace {

constexpr char kClass[] = "DecodedText";
constexpr char kParent[] = "RefCounted";
constexpr uint32_t kUsageDefault = 6; // PROPERTY_USAGE_DEFAULT of extension_api.json

GDExtensionObjectPtr create(void*) {
  Name parent(kParent), name(kClass);
  GDExtensionObjectPtr object = host.classdb_construct_object(parent.get());
  host.object_set_instance(object, name.get(),
                           reinterpret_cast<GDExtensionClassInstancePtr>(new Instance));
  return object;
}

void destroy(void*, GDExtensionClassInstancePtr instance) {
  delete reinterpret_cast<Instance*>(instance);
}

void register_method(const Method& method) {
  Name owner(kClass), name(method.name), none("");
  Text no_hint("");
  std::deque<Name> names; // a Name does not move
  const auto described = [&](const char* what, GDExtensionVariantType type) {
    names.emplace_back(what);
    return GDExtensionPropertyInfo{type, names.back().get(), none.get(),
                                   0,    no_hint.get(),      kUsageDefault};
  };
  std::vector<GDExtensionPropertyInfo> parameters;
  for (const Parameter& parameter : method.parameters)
    parameters.push_back(described(parameter.name, parameter.type));
  std::vector<GDExtensionClassMethodArgumentMetadata> sizes(
      parameters.size(), GDEXTENSION_METHOD_ARGUMENT_METADATA_NONE);
  GDExtensionPropertyInfo result = described("", method.result);
  GDExtensionClassMethodInfo info = {};
  info.name = name.get();
  info.method_userdata = const_cast<Method*>(&method);
  info.call_func = call_with_variants;
  info.ptrcall_func = call_with_values;
  info.method_flags = GDEXTENSION_METHOD_FLAGS_DEFAULT;
  info.has_return_value = 1;
  info.return_value_info = &result;
  info.argument_count = static_cast<uint32_t>(parameters.size());
  info.arguments_info = parameters.data();
  info.arguments_metadata = sizes.data();
  host.classdb_register_extension_class_method(host.library, owner.get(), &info);
}

void initialize(void*, GDExtensionInitializationLevel level) {
  if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
  Name name(kClass), parent(kParent);
  GDExtensionClassCreationInfo2 info = {};
  info.is_exposed = 1;
  info.create_instance_func = create;
  info.free_instance_func = destroy;
  host.classdb_register_extension_class2(host.library, name.get(), parent.get(), &info);
  for (const Method& method : methods()) register_method(method);
}

void deinitialize(void*, GDExtensionInitializationLevel level) {
  if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
  Name name(kClass);
  host.classdb_unregister_extension_class(host.library, name.get());
}

} // namespace
} // namespace dllm_godot

// entry_symbol of dllm.gdextension. False: Godot reports that the extension could not be loaded.
extern "C" __attribute__((visibility("default"))) GDExtensionBool
dllm_godot_init(GDExtensionInterfaceGetProcAddress get_proc_address,
                GDExtensionClassLibraryPtr library, GDExtensionInitialization* initialization) {
  if (const char* missing = dllm_godot::host.find(get_proc_address)) {
    std::fprintf(stderr, "dllm: this Godot has no function %s; version 4.2 or later is needed\n",
                 missing);
    return 0;
  }
  dllm_godot::host.library = library;
  initialization->minimum_initialization_level = GDEXTENSION_INITIALIZATION_SCENE;
  initialization->initialize = dllm_godot::initialize;
  initialization->deinitialize = dllm_godot::deinitialize;
  return 1;
}

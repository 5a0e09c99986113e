// Compiling, loading, writing compiled programs down.

#include "calls.h"
#include "guard.h"

namespace fake {
namespace {

const std::string kSerialized = "fake executable 1\n";

Error* check_limit(const Compiled& program) {
  int64_t limit = 0, temporary = 0;
  {
    const std::lock_guard lock(State::get().mutex);
    limit = State::get().settings.compile_limit;
    temporary = State::get().settings.temporary_bytes;
  }
  const auto used = static_cast<int64_t>(program.argument_bytes() + program.result_bytes() -
                                         program.alias_bytes()) +
                    temporary;
  if (limit == 0 || used <= limit) return nullptr;
  return make_error(8, "Ran out of memory in memory space hbm. Used " + std::to_string(used) +
                           " of " + std::to_string(limit) + " bytes.");
}

Error* read(const std::string& text, const std::string& options,
            std::shared_ptr<const Compiled>* out) {
  std::string why_not;
  const auto program = read_program(text, &why_not);
  if (program == nullptr) return make_error(2, why_not);
  if (!read_options(options, program.get(), &why_not)) return invalid(why_not);
  bool donates = true;
  {
    const std::lock_guard lock(State::get().mutex);
    donates = State::get().settings.donates != 0;
  }
  for (Argument& argument : program->arguments)
    if (!donates) argument.result = -1;
  if (Error* error = check_limit(*program)) return error;
  *out = program;
  return nullptr;
}

Error* compile_text(const abi::Program* program, const char* options, size_t options_size,
                    std::shared_ptr<const Compiled>* out) {
  check_struct(*program);
  const std::string format(program->format, program->format_size);
  if (format != "mlir") return invalid("unknown program format " + format);
  return read({program->code, program->code_size}, {options, options_size}, out);
}

Error* load(abi::Client* client, std::shared_ptr<const Compiled> compiled,
            abi::LoadedExecutable** out) {
  std::vector<abi::Device*> devices;
  for (int64_t i = 0; i < compiled->replicas; ++i) {
    const int64_t id = compiled->devices.empty() ? i : compiled->devices[static_cast<size_t>(i)];
    if (id < 0 || id >= static_cast<int64_t>(client->devices.size()))
      return invalid("no device " + std::to_string(id) + " for replica " + std::to_string(i));
    if (client->nodes.node_of(id) == client->nodes.own)
      devices.push_back(client->pointers[static_cast<size_t>(id)]);
  }
  *out = new abi::LoadedExecutable{client, std::move(compiled), std::move(devices)};
  State::get().add("loaded executable", *out);
  return nullptr;
}

abi::Executable* make_executable(std::shared_ptr<const Compiled> compiled) {
  auto* executable = new abi::Executable{std::move(compiled)};
  State::get().add("executable", executable);
  return executable;
}

void delete_serialized(abi::SerializedExecutable* serialized) {
  if (State::get().remove("serialized", serialized, "deleter of PJRT_Executable_Serialize"))
    delete serialized;
}

} // namespace

Error* client_compile(abi::ClientCompileArgs* args) {
  if (!State::get().check("client", args->client, "PJRT_Client_Compile"))
    return invalid("no client");
  std::shared_ptr<const Compiled> compiled;
  if (Error* error =
          compile_text(args->program, args->compile_options, args->compile_options_size, &compiled))
    return error;
  return load(args->client, compiled, &args->executable);
}

Error* compile(abi::CompileArgs* args) {
  std::shared_ptr<const Compiled> compiled;
  if (Error* error =
          compile_text(args->program, args->compile_options, args->compile_options_size, &compiled))
    return error;
  args->executable = make_executable(compiled);
  return nullptr;
}

Error* client_load(abi::ClientLoadArgs* args) {
  if (!State::get().check("client", args->client, "PJRT_Client_Load")) return invalid("no client");
  if (!State::get().check("executable", args->executable, "PJRT_Client_Load"))
    return invalid("no executable");
  return load(args->client, args->executable->compiled, &args->loaded_executable);
}

Error* executable_serialize(abi::ExecutableSerializeArgs* args) {
  if (!State::get().check("executable", args->executable, "PJRT_Executable_Serialize"))
    return invalid("no executable");
  const Compiled& compiled = *args->executable->compiled;
  auto* serialized =
      new abi::SerializedExecutable{kSerialized + std::to_string(compiled.options.size()) + "\n" +
                                    compiled.options + compiled.text};
  State::get().add("serialized", serialized);
  set_text(serialized->bytes, &args->serialized_bytes, &args->serialized_bytes_size);
  args->serialized_executable = serialized;
  args->serialized_executable_deleter = delete_serialized;
  return nullptr;
}

Error* executable_deserialize_and_load(abi::ExecutableDeserializeAndLoadArgs* args) {
  if (!State::get().check("client", args->client, "PJRT_Executable_DeserializeAndLoad"))
    return invalid("no client");
  const std::string bytes(args->serialized_executable, args->serialized_executable_size);
  const size_t line = bytes.find('\n', kSerialized.size());
  if (bytes.compare(0, kSerialized.size(), kSerialized) != 0 || line == std::string::npos)
    return invalid("these bytes are no executable");
  const size_t options = std::strtoull(bytes.c_str() + kSerialized.size(), nullptr, 10);
  if (options > bytes.size() - line - 1) return make_error(13, "the executable is cut");
  std::shared_ptr<const Compiled> compiled;
  const std::string text = bytes.substr(line + 1 + options);
  if (Error* error = read(text, bytes.substr(line + 1, options), &compiled)) return error;
  return load(args->client, compiled, &args->loaded_executable);
}

Error* executable_destroy(abi::ExecutableDestroyArgs* args) {
  if (State::get().remove("executable", args->executable, "PJRT_Executable_Destroy"))
    delete args->executable;
  return nullptr;
}

Error* loaded_executable_destroy(abi::LoadedExecutableDestroyArgs* args) {
  if (State::get().remove("loaded executable", args->executable, "PJRT_LoadedExecutable_Destroy"))
    delete args->executable;
  return nullptr;
}

Error* loaded_executable_get_executable(abi::LoadedExecutableGetExecutableArgs* args) {
  if (!State::get().check("loaded executable", args->loaded_executable,
                          "PJRT_LoadedExecutable_GetExecutable"))
    return invalid("no executable");
  args->executable = make_executable(args->loaded_executable->compiled);
  return nullptr;
}

Error* loaded_executable_addressable_devices(abi::LoadedExecutableAddressableDevicesArgs* args) {
  args->addressable_devices = args->executable->devices.data();
  args->num_addressable_devices = args->executable->devices.size();
  return nullptr;
}

Error* loaded_executable_delete(abi::LoadedExecutableDeleteArgs* args) {
  args->executable->deleted = true;
  return nullptr;
}

Error* loaded_executable_is_deleted(abi::LoadedExecutableIsDeletedArgs* args) {
  args->is_deleted = args->executable->deleted;
  return nullptr;
}

} // namespace fake

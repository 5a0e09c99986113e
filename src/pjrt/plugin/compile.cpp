// The options of compilers as a protobuf message, and the reports of plugins on programs.

#include "pjrt/plugin/compile.h"

#include "base/error.h"
#include "pjrt/plugin/plugin.h"

namespace dllm::pjrt {

namespace {

constexpr int64_t kNoOrdinal = -1; // the message's default of 0 would mean device 0

// Appends the fields of one protobuf message.
class Message {
public:
  void number(uint32_t field, int64_t value) {
    varint(field << 3);
    varint(static_cast<uint64_t>(value));
  }
  void flag(uint32_t field, bool value) {
    if (value) number(field, 1);
  }
  void bytes(uint32_t field, const std::string& content) {
    varint(field << 3 | 2);
    varint(content.size());
    text_ += content;
  }
  void message(uint32_t field, const Message& inner) { bytes(field, inner.text_); }
  template <class List> void packed(uint32_t field, const List& values) {
    Message list;
    for (auto value : values) list.varint(static_cast<uint64_t>(value));
    message(field, list);
  }
  std::string take() { return std::move(text_); }

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

// Returns a DeviceAssignmentProto, which has one list per partition with the device of every
// replica.
Message assignment(const CompileOptions& options) {
  Message made;
  made.number(1, options.replicas);
  made.number(2, options.partitions);
  for (int64_t p = 0; p < options.partitions; ++p) {
    std::vector<int64_t> ids;
    for (int64_t r = 0; r < options.replicas; ++r)
      ids.push_back(options.devices[static_cast<size_t>(r * options.partitions + p)]);
    Message list;
    list.packed(1, ids);
    made.message(3, list);
  }
  return made;
}

// Returns an ExecutableBuildOptionsProto without debug_options. Empty debug_options would reset the
// plugin's defaults.
Message build_options(const CompileOptions& options) {
  Message made;
  made.number(1, kNoOrdinal);
  made.number(4, options.replicas);
  made.number(5, options.partitions);
  made.flag(6, options.spmd);
  if (!options.devices.empty()) made.message(9, assignment(options));
  if (!options.propagate_to_outputs.empty()) made.packed(12, options.propagate_to_outputs);
  made.flag(19, options.shardy);
  return made;
}

// Returns an entry of a map<string, OptionOverrideProto>.
Message flag_entry(const std::string& name, const FlagValue& value) {
  Message content;
  if (const bool* flag = std::get_if<bool>(&value)) {
    content.number(2, *flag ? 1 : 0);
  } else {
    content.bytes(1, std::get<std::string>(value));
  }
  Message entry;
  entry.bytes(1, name);
  entry.message(2, content);
  return entry;
}

} // namespace

std::string serialize(const CompileOptions& options) {
  Message made;
  made.message(3, build_options(options));
  for (const auto& [name, value] : options.flags) made.message(7, flag_entry(name, value));
  return made.take();
}

std::pair<std::string, FlagValue> parse_flag(const std::string& text) {
  const size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0)
    fail(Code::invalid_argument, "compiler flag {} is not name=value", text);
  const std::string name = text.substr(0, sign), value = text.substr(sign + 1);
  if (value == "true" || value == "True") return {name, true};
  if (value == "false" || value == "False") return {name, false};
  return {name, value};
}

namespace {

// Calls a function of the plugin. Returns false if the plugin does not have it.
template <class Args> bool ask(const abi::Api& api, abi::Call<Args> abi::Api::*slot, Args& args) {
  try {
    call(api, slot, args);
  } catch (const Error& error) {
    if (error.code() == Code::unimplemented) return false;
    throw;
  }
  return true;
}

} // namespace

int64_t Compiled::output_count() const {
  abi::ExecutableNumOutputsArgs args{};
  args.executable = get();
  call(handle_.api(), &abi::Api::executable_num_outputs, args);
  return static_cast<int64_t>(args.num_outputs);
}

std::vector<DType> Compiled::output_types() const {
  abi::ExecutableOutputElementTypesArgs args{};
  args.executable = get();
  call(handle_.api(), &abi::Api::executable_output_element_types, args);
  std::vector<DType> types;
  for (size_t i = 0; i < args.num_output_types; ++i)
    types.push_back(dtype_of(args.output_types[i]));
  return types;
}

std::vector<Shape> Compiled::output_shapes() const {
  abi::ExecutableOutputDimensionsArgs args{};
  args.executable = get();
  call(handle_.api(), &abi::Api::executable_output_dimensions, args);
  std::vector<Shape> shapes;
  const int64_t* at = args.dims;
  for (size_t i = 0; i < args.num_outputs; ++i) {
    shapes.emplace_back(std::vector<int64_t>(at, at + args.dim_sizes[i]));
    at += args.dim_sizes[i];
  }
  return shapes;
}

std::optional<ProgramMemory> Compiled::memory() const {
  abi::ExecutableGetCompiledMemoryStatsArgs args{};
  args.executable = get();
  if (!ask(handle_.api(), &abi::Api::executable_get_compiled_memory_stats, args))
    return std::nullopt;
  return ProgramMemory{args.generated_code_size_in_bytes, args.argument_size_in_bytes,
                       args.output_size_in_bytes,         args.alias_size_in_bytes,
                       args.temp_size_in_bytes,           args.peak_memory_in_bytes,
                       args.total_size_in_bytes};
}

NamedValues Compiled::costs() const {
  abi::ExecutableGetCostAnalysisArgs args{};
  args.executable = get();
  if (!ask(handle_.api(), &abi::Api::executable_get_cost_analysis, args)) return {};
  return read_named_values(args.properties, args.num_properties);
}

std::string Compiled::fingerprint() const {
  abi::ExecutableFingerprintArgs args{};
  args.executable = get();
  if (!ask(handle_.api(), &abi::Api::executable_fingerprint, args)) return "";
  return {args.executable_fingerprint, args.executable_fingerprint_size};
}

std::string Compiled::optimized_program() const {
  auto program = sized<abi::Program>();
  abi::ExecutableOptimizedProgramArgs args{};
  args.executable = get();
  args.program = &program;
  call(handle_.api(), &abi::Api::executable_optimized_program, args); // returns the size
  std::string code(program.code_size, '\0');
  program.code = code.data();
  call(handle_.api(), &abi::Api::executable_optimized_program, args);
  code.resize(program.code_size);
  return code;
}

std::string Compiled::serialize() const {
  abi::ExecutableSerializeArgs args{};
  args.executable = get();
  call(handle_.api(), &abi::Api::executable_serialize, args);
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr)
    args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

} // namespace dllm::pjrt

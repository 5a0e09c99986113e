#include "pjrt/compiled.h"

#include "pjrt/types.h"

namespace dllm::pjrt {
namespace {

// Calls; false when the plugin does not offer the fact.
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
  call(handle_.api(), &abi::Api::executable_optimized_program, args); // tells the size
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

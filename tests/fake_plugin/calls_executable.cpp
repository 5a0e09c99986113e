// What is known of a compiled program.

#include "calls.h"
#include "guard.h"

namespace fake {
namespace {

// The program behind a handle; null, and the mistake noted, when the handle does not live.
template <class Args> const Compiled* known(const Args* args) {
  if (!State::get().check("executable", args->executable, abi::kFunction<Args>)) return nullptr;
  return args->executable->compiled.get();
}

} // namespace

Error* executable_name(abi::ExecutableNameArgs* args) {
  static const std::string name = "main";
  set_text(name, &args->executable_name, &args->executable_name_size);
  return nullptr;
}

Error* executable_num_replicas(abi::ExecutableNumReplicasArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  args->num_replicas = static_cast<size_t>(program->replicas);
  return nullptr;
}

Error* executable_num_partitions(abi::ExecutableNumPartitionsArgs* args) {
  args->num_partitions = 1;
  return nullptr;
}

Error* executable_num_outputs(abi::ExecutableNumOutputsArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  args->num_outputs = program->results.size();
  return nullptr;
}

Error*
executable_size_of_generated_code_in_bytes(abi::ExecutableSizeOfGeneratedCodeInBytesArgs* args) {
  args->size_in_bytes = 1000;
  return nullptr;
}

Error* executable_get_cost_analysis(abi::ExecutableGetCostAnalysisArgs* args) {
  static abi::NamedValue flops = [] {
    abi::NamedValue value{};
    value.head.struct_size = abi::kSize<abi::NamedValue>;
    value.name = "flops";
    value.name_size = 5;
    value.type = abi::NamedValueType::f32;
    value.float_value = 4096;
    value.value_size = 1;
    return value;
  }();
  args->properties = &flops;
  args->num_properties = 1;
  return nullptr;
}

Error* executable_optimized_program(abi::ExecutableOptimizedProgramArgs* args) {
  if (known(args) == nullptr) return invalid("no executable");
  check_struct(*args->program);
  // HloModuleProtoWithConfig: a module "fake" whose entry computation "main", number 1, is empty.
  static const std::string format = "hlo_with_config";
  static const std::string text("\x0a\x12"
                                "\x0a\x04"
                                "fake"
                                "\x1a\x08\x0a\x04"
                                "main"
                                "\x28\x01\x30\x01");
  if (args->program->code != nullptr) {
    if (args->program->code_size < text.size()) return invalid("code_size is too small");
    std::memcpy(args->program->code, text.data(), text.size());
  }
  args->program->code_size = text.size();
  set_text(format, &args->program->format, &args->program->format_size);
  return nullptr;
}

Error* executable_output_element_types(abi::ExecutableOutputElementTypesArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  args->output_types = const_cast<abi::BufferType*>(program->result_types.data());
  args->num_output_types = program->result_types.size();
  return nullptr;
}

Error* executable_output_dimensions(abi::ExecutableOutputDimensionsArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  args->dims = program->result_dims.data();
  args->dim_sizes = program->result_ranks.data();
  args->num_outputs = program->results.size();
  return nullptr;
}

Error* executable_fingerprint(abi::ExecutableFingerprintArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  set_text(program->fingerprint, &args->executable_fingerprint, &args->executable_fingerprint_size);
  return nullptr;
}

Error* executable_get_compiled_memory_stats(abi::ExecutableGetCompiledMemoryStatsArgs* args) {
  const Compiled* program = known(args);
  if (program == nullptr) return invalid("no executable");
  {
    const std::lock_guard lock(State::get().mutex);
    args->temp_size_in_bytes = State::get().settings.temporary_bytes;
  }
  args->generated_code_size_in_bytes = 1000;
  args->argument_size_in_bytes = static_cast<int64_t>(program->argument_bytes());
  args->output_size_in_bytes = static_cast<int64_t>(program->result_bytes());
  args->alias_size_in_bytes = static_cast<int64_t>(program->alias_bytes());
  args->peak_memory_in_bytes = args->argument_size_in_bytes + args->output_size_in_bytes +
                               args->temp_size_in_bytes - args->alias_size_in_bytes;
  return nullptr;
}

} // namespace fake

#include "run_parts.h"

#include <filesystem>

namespace dllm::cli {

RunRecord read_run_with_parts(const Context& context, const std::string& run) {
  RunRecord record = read_run(run);
  std::error_code ignored;
  if (!std::filesystem::is_directory(run, ignored)) return record;
  try {
    const auto checkpoint = open_checkpoint(context, run);
    read_parts(text([&](dllm_buffer* out, dllm_error* err) {
                 return dllm_checkpoint_describe(checkpoint.get(), out, err);
               }),
               &record);
  } catch (const Failure& failure) { // the page has its curves without the parts
    if (failure.status() == DLLM_CANCELLED) throw;
  }
  return record;
}

} // namespace dllm::cli

#ifndef DLLM_CPP_HUB_HPP
#define DLLM_CPP_HUB_HPP
// Functions that pull models, adapters and data sets by name, and look at the cache.
#include "dllm/cpp/event.hpp"
#include "dllm/cpp/options.hpp"

namespace dllm {
inline namespace api {

// Loads the files of a name into the cache and returns their path.
inline std::string hub_pull(std::string_view name, const Settings& settings = {},
                            const Task* task = nullptr) {
  return settings.with("hub", [&](const dllm_options* opts) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_hub_pull(zero_ended(name).c_str(), opts, handle_of(task), out, err);
    });
  });
}

// The functions below return JSON.

// Asks the hub what a pull would load.
inline std::string hub_describe(std::string_view name, const Settings& settings = {},
                                const Task* task = nullptr) {
  return settings.with("hub", [&](const dllm_options* opts) {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_hub_describe(zero_ended(name).c_str(), opts, handle_of(task), out, err);
    });
  });
}
// Lists the repositories in the cache.
inline std::string hub_list(const Task* task = nullptr) {
  return text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_hub_list(handle_of(task), out, err); });
}
// Checks the files of a repository in the cache.
inline std::string hub_verify(std::string_view name, const Task* task = nullptr) {
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_hub_verify(zero_ended(name).c_str(), handle_of(task), out, err);
  });
}
// Removes a repository, or one revision of it, from the cache.
inline std::string hub_remove(std::string_view name, const Task* task = nullptr) {
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_hub_remove(zero_ended(name).c_str(), handle_of(task), out, err);
  });
}

} // namespace api
} // namespace dllm
#endif

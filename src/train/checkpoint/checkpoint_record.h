#pragma once
// Reads members of the JSON in a checkpoint, and fails for a checkpoint of another trainer. Private
// to src/train.

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace dllm::train {

// Returns a member of trainer.json. Only dllm writes the file, so a member that is missing or has
// another type means damage.
template <class T> T member(const Json& record, const char* key) {
  const bool there = record.is_object() && record.contains(key);
  const bool fits = there && (!std::is_same_v<T, int64_t> || record.at(key).is_number_integer()) &&
                    (!std::is_same_v<T, std::string> || record.at(key).is_string());
  if (!fits) fail(Code::data_loss, "trainer.json: {} is missing or of another type", key);
  return record.at(key).get<T>();
}

[[noreturn]] inline void fail_differs(const std::string& what, const std::string& saved,
                                      const std::string& here) {
  fail_with_hint("make the trainer as it was when the checkpoint was saved",
                 Code::failed_precondition, "the checkpoint has {} {}, this trainer has {}", what,
                 saved, here);
}

} // namespace dllm::train

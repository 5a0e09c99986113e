#pragma once
#include "base/options.h"
#include "check.h"
#include "dllm/options.h"
#include "guard.h"

struct dllm_options : dllm::abi::Handle<dllm::abi::Kind::options> {
  explicit dllm_options(const dllm::Schema& schema) : object(schema) {}
  dllm::Options object;
};

namespace dllm::abi {

// Every kind of option, with its schema: the table in option_kinds.cpp. Fails with not_found and the nearest kind.
const Schema& schema_of(std::string_view kind);
const char* option_kind_name(int64_t index);  // null past the end

// A copy of the caller's options, or the defaults when NULL. Options of "decoder:<policy>" serve where "decoder" is
// wanted; any other kind is refused.
Options options_of(const dllm_options* opts, std::string_view kind);

}  // namespace dllm::abi

#pragma once
// The options of a request for text: what it starts from, where it ends, and all options of a
// decoder that a request may have.

#include "base/options.h"

#include <string>
#include <vector>

namespace dllm::generate {

// The kind "request" has the options that all policies share. The kind "request:<policy>" also has
// the policy's own. Fails with not_found.
const Schema& request_schema(const std::string& policy = "");

// Option policy of this value: the request has the policy of its generator.
constexpr const char* kAutomatic = "auto";

// Returns the options of a decoder (kind "decoder:<policy>") that a request sets. The options in
// `defaults` hold where the request sets nothing. Fails with not_found for an option that the
// policy lacks.
Options decoding_options(const Options& request, const Options& defaults);
// Returns the options of kind "slot" for a request with these end tokens.
Options slot_options(const Options& request, const std::vector<int32_t>& ends);

} // namespace dllm::generate

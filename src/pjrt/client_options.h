#pragma once
// Options of a plugin's client from name=value texts. A known option of a wrong type aborts older
// plugins and an unknown one is ignored by them, so names and types are checked here.

#include "pjrt/named_values.h"

#include <string>
#include <vector>

namespace dllm::pjrt {

// "cpu_device_count=8", "visible_devices=0:1" (a list), or with a type for names this library does
// not know: "name:i64=8", of string, i64, list, f32, bool. Fails with not_found for an unknown name
// without a type, with invalid_argument for a value that is not of its type.
NamedValues parse_client_options(const std::vector<std::string>& texts);

} // namespace dllm::pjrt

#pragma once
// JSON from outside as values of the template language.

#include "base/json.h"
#include "text/jinja/value.h"

namespace dllm::text::jinja {

// Every text in it bears the mark.
Value from_json(const Json& json, Mark mark);
// A list of messages: message i's texts bear the mark of message i, its role that of data. Fails
// with invalid_argument for anything but a list of objects with a "role" that is a string.
Value from_messages(const Json& messages);

} // namespace dllm::text::jinja

#pragma once
// plain_messages() converts the messages of a conversation to the form that chat templates expect.

#include "base/json.h"

#include <string>

namespace dllm::text {

// Returns a copy of the list with three changes:
//   Members that are null are left out, as transformers does.
//   Content in parts, [{"type": "text", "text": "hi"}], becomes one text.
//   The role human becomes user, and gpt and model become assistant, in any case of letters.
// Other roles stay. Fails with invalid_argument for a part that is not a text, naming message and
// type. Returns `messages` unchanged when it is not a list of objects.
Json plain_messages(const Json& messages);

} // namespace dllm::text

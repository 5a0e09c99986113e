#pragma once
// The messages of a conversation in the one form that chat templates are written for.

#include "base/json.h"

#include <string>

namespace dllm::text {

// A copy of the list in which
//   members that are null are left out, as transformers does;
//   content in parts, [{"type": "text", "text": "hi"}], is one text;
//   roles have the names of templates: human is user, gpt and model are assistant; upper case counts as lower case.
// Other roles stay. Fails with invalid_argument for a part that is not a text, naming message and type.
// What is not a list of objects is returned as it is.
Json plain_messages(const Json& messages);

} // namespace dllm::text

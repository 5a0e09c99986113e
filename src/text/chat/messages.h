#pragma once
// plain_messages() converts the messages of a conversation to the form that chat templates expect.

#include "base/json.h"

#include <string>
#include <string_view>

namespace dllm::text {

// Returns a copy of the list with these changes:
//   Members that are null are left out, as transformers does.
//   {"from", "value"} (ShareGPT) becomes {"role", "content"}.
//   A text alone (UltraChat) becomes a message, in turn of user and assistant.
//   Content in parts, [{"type": "text", "text": "hi"}], becomes one text.
//   The role human becomes user, and gpt, model and bot become assistant, in any case of letters.
// Other roles stay. Returns `messages` unchanged when it is not a list.
//
// Fails with invalid_argument, naming the message, for a part that is not a text, and for a message
// without a content. A content that is null is empty; a message with calls of tools or with
// reasoning needs no content.
Json plain_messages(const Json& messages);

// Returns true for the roles that templates of several families know: those above, system,
// developer and the roles of tools.
bool is_known_role(std::string_view role);

} // namespace dllm::text

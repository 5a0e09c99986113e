#pragma once
// Calls of functions ("tools") in a chat: the schema of a call that has to come, and the calls that
// an answer holds.

#include <nlohmann/json.hpp>

#include <string>

namespace dllm::cli {

// Checks that `tools` is a list of functions with names. Throws Failure with DLLM_INVALID_ARGUMENT.
void check_tools(const nlohmann::ordered_json& tools);

// Returns the JSON schema of a call of one of the functions, or of the function `name` if it is not
// "". Throws Failure with DLLM_INVALID_ARGUMENT if there is no such function.
std::string schema_of_call(const nlohmann::ordered_json& tools, const std::string& name);

// Templates take the arguments of a call as an object, and clients send them as a text. Makes
// objects of them in an assistant's message.
void read_arguments(nlohmann::ordered_json& message);

struct ToolCalls {
  std::string content;           // of the answer, without the calls
  nlohmann::ordered_json called; // in OpenAI's form; empty: the answer holds no call
};

// Finds the calls of an answer: <tool_call>{...}</tool_call> as Hermes and Qwen write them, or an
// answer that is one JSON object or a list of them, as Llama writes them. Other texts are content.
// id: begin of the ids of calls.
ToolCalls tool_calls_of(const std::string& answer, const nlohmann::ordered_json& tools,
                        const std::string& id);

} // namespace dllm::cli

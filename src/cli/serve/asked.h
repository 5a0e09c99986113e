#pragma once
// Reads the body of a request in the form of OpenAI's API: which texts are asked for, and how they
// are sent.

#include "../command.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dllm::cli {

enum class AskKind { completion, chat, infill };

// What one request of a client asks for.
struct Asked {
  AskKind kind = AskKind::completion;
  std::string model; // "": the one that is served
  // Settings of kind "request", one for each text of the answer.
  std::vector<nlohmann::ordered_json> requests;
  // Settings of kind "submission", for all of them.
  nlohmann::ordered_json submission = nlohmann::ordered_json::object();
  // What follows the answer of a completion; "": nothing. The answer is the text before it then.
  std::string suffix;
  bool is_stream = false;
  bool has_usage = false;                 // a stream ends with the counts
  bool has_canvas = false;                // a stream has an event for each step
  bool has_echo = false;                  // a completion begins with its prompt
  bool has_logprobs = false;              // each token has its log probability
  nlohmann::ordered_json tools = nullptr; // functions that a chat may call; null: none
};

// Sets a setting of kind "request" that is not the text itself. Throws Failure with
// DLLM_INVALID_ARGUMENT that names `where` for other keys of this kind.
void take_setting(nlohmann::ordered_json& settings, const std::string& key,
                  const nlohmann::ordered_json& value, const std::string& where);
// Returns whether settings of kind "request" say what the text has to match.
bool has_constraint(const nlohmann::ordered_json& settings);

// Returns settings of kind "request" for a model by name. Throws Failure for an unknown one.
using DefaultsOf = std::function<const nlohmann::ordered_json&(const std::string& model)>;

// Throws Failure with DLLM_INVALID_ARGUMENT for a body that is not understood, and for a field that
// is known and not supported. random_seed: seed of a request that names none. defaults_of: settings
// of kind "request" that the body may replace, for the model that it names.
Asked read_asked(AskKind kind, const std::string& body, int64_t random_seed,
                 const DefaultsOf& defaults_of);

} // namespace dllm::cli

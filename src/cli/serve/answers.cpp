#include "answers.h"

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* finish_reason(const AnswerHead& head, const Json& about) {
  if (about.contains("tool_calls")) return "tool_calls";
  const std::string finish = about.at("finish").get<std::string>();
  return head.is_formed || finish == "end_token" || finish == "stop_text" ? "stop" : "length";
}

const char* object_name(AskKind kind, bool is_piece) {
  switch (kind) {
  case AskKind::chat: return is_piece ? "chat.completion.chunk" : "chat.completion";
  case AskKind::infill: return "infill";
  case AskKind::completion: break;
  }
  return "text_completion";
}

Json begin(const AnswerHead& head, bool is_piece) {
  return {{"id", head.id},
          {"object", object_name(head.kind, is_piece)},
          {"created", head.created},
          {"model", head.model}};
}

// The tokens that the model saw: a prompt that several texts continue counts for each of them.
Json usage_of(const std::vector<Json>& abouts) {
  int64_t prompt = 0, completion = 0;
  for (const Json& about : abouts) {
    prompt += about.at("prompt_tokens").get<int64_t>();
    completion += about.at("completion_tokens").get<int64_t>();
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion}};
}

Json message_of(const Json& about) {
  Json message = {{"role", "assistant"}, {"content", about.at("completion")}};
  if (!about.contains("tool_calls")) return message;
  if (message["content"] == "") message["content"] = nullptr;
  message["tool_calls"] = about["tool_calls"];
  return message;
}

Json facts_of(const Json& about) {
  Json facts = Json::object();
  for (const char* key : {"seed", "policy", "finish", "steps", "nfe", "seconds"})
    facts[key] = about.at(key);
  return facts;
}

struct HttpStatus {
  int status;
  const char* type;
};

HttpStatus http_status(dllm_status status) {
  switch (status) {
  case DLLM_INVALID_ARGUMENT:
  case DLLM_OUT_OF_RANGE:
  case DLLM_NOT_FOUND:
  case DLLM_UNIMPLEMENTED:
  case DLLM_FAILED_PRECONDITION: return {400, "invalid_request_error"};
  case DLLM_UNAUTHENTICATED: return {401, "invalid_request_error"};
  case DLLM_RESOURCE_EXHAUSTED: return {429, "rate_limit_error"};
  case DLLM_UNAVAILABLE: return {503, "server_error"};
  case DLLM_DEADLINE_EXCEEDED: return {504, "server_error"};
  default: return {500, "server_error"};
  }
}

} // namespace

Json whole_answer(const AnswerHead& head, bool has_echo, const std::vector<Json>& abouts) {
  Json made = begin(head, false);
  Json choices = Json::array();
  for (size_t i = 0; i < abouts.size(); ++i) {
    const Json& about = abouts[i];
    Json choice = {{"index", i}};
    if (head.kind == AskKind::chat)
      choice["message"] = message_of(about);
    else
      choice["text"] = about.at(has_echo ? "text" : "completion");
    if (about.contains("holes")) choice["holes"] = about["holes"];
    choice["finish_reason"] = finish_reason(head, about);
    choice["logprobs"] = about.value("logprobs", Json());
    choice["dllm"] = facts_of(about);
    choices.push_back(choice);
  }
  made["choices"] = choices;
  made["usage"] = usage_of(abouts);
  return made;
}

Json piece_of_answer(const AnswerHead& head, size_t index, std::string_view text,
                     const Json& about) {
  Json choice = {{"index", index}};
  if (head.kind == AskKind::chat)
    choice["delta"] = text.empty() ? Json::object() : Json{{"content", text}};
  else
    choice["text"] = text;
  choice["finish_reason"] = about.is_null() ? Json() : Json(finish_reason(head, about));
  choice["logprobs"] = about.is_null() ? Json() : about.value("logprobs", Json());
  if (!about.is_null()) choice["dllm"] = facts_of(about);
  Json made = begin(head, true);
  made["choices"] = Json::array({choice});
  return made;
}

Json piece_of_calls(const AnswerHead& head, size_t index, const Json& called) {
  Json made = piece_of_answer(head, index, "", nullptr), numbered = Json::array();
  for (size_t i = 0; i < called.size(); ++i) {
    Json call = {{"index", i}};
    call.update(called[i]);
    numbered.push_back(call);
  }
  made["choices"][0]["delta"] = {{"tool_calls", numbered}};
  return made;
}

Json usage_piece(const AnswerHead& head, const std::vector<Json>& abouts) {
  Json made = begin(head, true);
  made["choices"] = Json::array();
  made["usage"] = usage_of(abouts);
  return made;
}

Json canvas_piece(size_t index, const std::string& canvas, const std::vector<std::string>& cells,
                  const Json& about) {
  return {{"index", index},
          {"canvas", canvas},
          {"step", about.at("steps")},
          {"open", about.at("open")},
          {"cells", cells},
          {"ids", about.at("ids")},
          {"states", about.at("states")},
          {"confidence", about.at("confidence")},
          {"end_tokens", about.at("end_tokens")}};
}

std::string event_text(const Json& data, const char* name) {
  std::string made = name == nullptr ? "" : "event: " + std::string(name) + "\n";
  return made + "data: " + dumped(data) + "\n\n";
}

Json error_json(dllm_status status, const std::string& message, const std::string& hint) {
  const std::string whole = hint.empty() ? message : message + " (" + hint + ")";
  return {{"error",
           {{"message", whole},
            {"type", http_status(status).type},
            {"param", nullptr},
            {"code", dllm_status_name(status)}}}};
}

HttpAnswer error_answer(dllm_status status, const std::string& message, const std::string& hint) {
  HttpAnswer answer = json_answer(error_json(status, message, hint), http_status(status).status);
  if (answer.status == 429 || answer.status == 503) answer.headers = {{"Retry-After", "1"}};
  if (answer.status == 401) answer.headers = {{"WWW-Authenticate", "Bearer"}};
  return answer;
}

HttpAnswer json_answer(const Json& json, int status) {
  return {status, "application/json", dumped(json) + "\n"};
}

} // namespace dllm::cli

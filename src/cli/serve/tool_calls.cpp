#include "tool_calls.h"

#include "../command.h"
#include "shallow_json.h"

#include <algorithm>
#include <string_view>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr std::string_view kBeforeJson[] = {"<|python_tag|>", "[TOOL_CALLS]"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Returns the function of an entry of `tools`.
const Json& function_of(const Json& tool) {
  return tool.contains("function") ? tool.at("function") : tool;
}

bool is_named(const Json& tools, const std::string& name) {
  return std::ranges::any_of(tools,
                             [&](const Json& tool) { return function_of(tool)["name"] == name; });
}

// Returns a call in OpenAI's form, or null if the object is none.
Json call_of(const Json& object, const std::string& id) {
  if (!object.is_object() || !object.value("name", Json()).is_string()) return Json();
  const char* key = object.contains("parameters") ? "parameters" : "arguments";
  const Json arguments = object.value(key, Json::object());
  if (!arguments.is_object() && !arguments.is_string()) return Json();
  const std::string text = arguments.is_string() ? arguments.get<std::string>() : arguments.dump();
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", object["name"]}, {"arguments", text}}}};
}

// Finds calls between tags. A part that cannot be read leaves the whole answer as it is.
ToolCalls tagged_calls(const std::string& answer, const std::string& id) {
  ToolCalls found{"", Json::array()};
  const std::string_view all = answer;
  size_t at = 0;
  for (size_t open; (open = all.find(kOpen, at)) != std::string_view::npos;) {
    const size_t begin = open + kOpen.size(), close = all.find(kClose, begin);
    if (close == std::string_view::npos) return {answer, Json::array()};
    const Json call = call_of(parse_shallow(all.substr(begin, close - begin)),
                              id + std::to_string(found.called.size()));
    if (call.is_null()) return {answer, Json::array()};
    found.content += all.substr(at, open - at);
    found.called.push_back(call);
    at = close + kClose.size();
  }
  found.content = trimmed(found.content + std::string(all.substr(at)));
  return found;
}

} // namespace

void check_tools(const Json& tools) {
  const auto has_name = [](const Json& tool) {
    if (!tool.is_object()) return false;
    const Json& function = function_of(tool);
    return function.is_object() && function.value("name", Json()).is_string();
  };
  if (tools.is_array() && std::ranges::all_of(tools, has_name)) return;
  throw Failure(DLLM_INVALID_ARGUMENT, "tools is not a list of functions with names",
                R"(write [{"type": "function", "function": {"name": ..., "parameters": ...}}])");
}

std::string schema_of_call(const Json& tools, const std::string& name) {
  Json calls = Json::array();
  for (const Json& tool : tools) {
    const Json& function = function_of(tool);
    if (!name.empty() && function["name"] != name) continue;
    const Json none = {{"type", "object"}, {"properties", Json::object()}};
    calls.push_back({{"type", "object"},
                     {"properties",
                      {{"name", {{"const", function["name"]}}},
                       {"arguments", function.value("parameters", none)}}},
                     {"required", {"name", "arguments"}}});
  }
  if (calls.empty())
    throw Failure(DLLM_INVALID_ARGUMENT, "tool_choice names \"" + name + "\", which tools lacks");
  return (calls.size() == 1 ? calls[0] : Json{{"anyOf", calls}}).dump();
}

void read_arguments(Json& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.value("arguments", Json()).is_string()) continue;
    const Json read = parse_shallow(function["arguments"].get<std::string>());
    if (read.is_object()) function["arguments"] = read;
  }
}

ToolCalls tool_calls_of(const std::string& answer, const Json& tools, const std::string& id) {
  if (answer.find(kOpen) != std::string::npos) return tagged_calls(answer, id);
  std::string_view text = trimmed(answer);
  for (const std::string_view before : kBeforeJson) {
    if (text.starts_with(before)) text.remove_prefix(before.size());
  }
  const Json read = parse_shallow(text);
  const Json objects = read.is_array() ? read : Json::array({read});
  Json called = Json::array();
  for (const Json& object : objects) {
    const Json call = call_of(object, id + std::to_string(called.size()));
    if (call.is_null() || !is_named(tools, object["name"])) return {answer, Json::array()};
    called.push_back(call);
  }
  return {called.empty() ? answer : "", called};
}

} // namespace dllm::cli

// dllm serve gives programs texts over HTTP, in the form of OpenAI's API.

#include "../command.h"
#include "../http/own_host.h"
#include "../processes/process.h"
#include "../run_settings.h"
#include "../serve/service.h"
#include "../serve/shallow_json.h"
#include "writing/decoding.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Context& context) {
  std::vector<std::string> keys;
  if (!context.has("api-key-file")) return keys;
  const std::string& path = context.text("api-key-file");
  std::ifstream file(path);
  if (!file) throw Failure(DLLM_NOT_FOUND, "cannot read the keys in " + path);
  for (std::string line; std::getline(file, line);) {
    constexpr const char* kBlank = " \t\r";
    const size_t first = line.find_first_not_of(kBlank);
    if (first == std::string::npos) continue;
    keys.push_back(line.substr(first, line.find_last_not_of(kBlank) - first + 1));
  }
  if (keys.empty()) throw Failure(DLLM_INVALID_ARGUMENT, path + " has no key, one a line");
  return keys;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (end > at) words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Returns the name of a model: the last part of its path without the ending of a file.
std::string name_of(const std::string& model) {
  std::filesystem::path path(model);
  if (path.filename().empty()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

std::string template_of(const Context& context) {
  if (context.has("template")) return given_template(context);
  return row_settings(context).chat_template();
}

std::vector<std::string> adapters_of(const Context& context) {
  std::vector<std::string> names;
  for (const Json& one : Json::parse(context.option("queue", "adapter_folders"))) {
    const std::string& text = one.get_ref<const std::string&>();
    names.push_back(text.substr(0, text.find('=')));
  }
  return names;
}

int64_t in_range(const Context& context, const char* name, int64_t least, int64_t most) {
  const int64_t value = context.number(name);
  if (value < least || value > most) {
    throw UsageFailure("--" + std::string(name) + " takes " + std::to_string(least) + " to " +
                       std::to_string(most) + ", not " + context.text(name));
  }
  return value;
}

// Returns the settings of requests that do not set them: a JSON object, or a file with one.
Json default_settings(const Context& context) {
  if (!context.has("settings")) return Json::object();
  const std::string& word = context.text("settings");
  const std::string json = word.find_first_of("{[") == 0 ? word : read_all(word);
  const Json given = parse_shallow(json);
  if (!given.is_object()) throw UsageFailure("--settings is not a JSON object, as {\"steps\": 32}");
  Json settings = Json::object();
  for (const auto& [key, value] : given.items())
    take_setting(settings, key, value, "--settings: " + key);
  return settings;
}

// Reads a request with the settings of the server, so that a mistake in them ends the program and
// is not an error of each client. A template may refuse the message.
void try_settings(const Queue& queue, const ServiceSettings& settings, dllm_task* task) {
  const bool is_formed = has_constraint(settings.settings);
  const auto read = [&](Json request) {
    if (!is_formed) request["length"] = 1; // a model may have few positions
    request.update(settings.settings);
    if (!settings.chat_template.empty()) request["template"] = settings.chat_template;
    submit_request(queue, request, Json::object(), task,
                   [&](int64_t number) { dllm_queue_remove(queue.get(), number, nullptr); });
  };
  read({{"prompt", "word"}});
  if (settings.chat_template.empty()) return;
  try {
    read({{"messages", Json::array({{{"role", "user"}, {"content", "word"}}})}});
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_NOT_FOUND) throw;
  }
}

ServiceSettings settings_of(const Context& context) {
  constexpr int64_t kMebibyte = 1 << 20;
  ServiceSettings settings;
  settings.name = context.has("name") ? context.text("name") : name_of(context.text("model"));
  settings.adapters = adapters_of(context);
  settings.keys = keys_of(context);
  settings.chat_template = template_of(context);
  settings.settings = default_settings(context);
  settings.timeout = context.real("timeout");
  settings.http.address = context.text("host");
  settings.http.port = in_range(context, "port", 0, 65535);
  settings.http.most_body = in_range(context, "max-body", 1, 1024) * kMebibyte;
  settings.http.origins = words_of(context.has("origins") ? context.text("origins") : "");
  settings.http.hosts = words_of(context.has("hosts") ? context.text("hosts") : "");
  if (settings.timeout < 0 || context.real("drain") < 0)
    throw UsageFailure("--timeout and --drain take 0 or more seconds");
  return settings;
}

int serve(Context& context) {
  const ServiceSettings settings = settings_of(context);
  const Session session(context);
  Queue queue(make<dllm_queue>([&](dllm_queue** out, dllm_error* err) {
    return dllm_queue_new(session.model.get(), session.tokenizer.get(), context.options("queue"),
                          out, err);
  }));
  try_settings(queue, settings, context.task());
  const Json about = Json::parse(queue.describe());
  Service service(std::move(queue), settings);
  const std::string& host = settings.http.address;
  const std::string shown = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  std::printf("http://%s:%lld/v1\n", shown.c_str(), static_cast<long long>(service.port()));
  std::fflush(stdout);
  std::fprintf(stderr,
               "model \"%s\", policy %s; a page is at /; Ctrl-C or SIGTERM ends the server\n",
               settings.name.c_str(), about.at("policy").get<std::string>().c_str());
  if (!is_loopback(host) && settings.keys.empty()) {
    std::fprintf(stderr,
                 "every machine that reaches %s may ask; --api-key-file FILE asks for a "
                 "key\n",
                 shown.c_str());
  }
  service.run(context.task(), context.real("drain"));
  return 0;
}

} // namespace

Command serve_command() {
  using Kind = Argument::Kind;
  return {"serve",
          "answer requests over HTTP in the form of OpenAI's API",
          "dllm serve runs/first --port 8080\n"
          "  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once\", \"max_tokens\": "
          "32}'",
          {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder", true},
           {Kind::number, "port", "8080", "0: a free one"},
           {Kind::text, "host", "127.0.0.1",
            "address to listen on; 0.0.0.0: every machine of the network may ask"},
           {Kind::text, "name", "", "the name of the model for clients; default: that of its path"},
           {Kind::text, "api-key-file", "",
            "a file of keys, one a line; clients send one of them; default: none is asked for"},
           {Kind::text, "origins", "",
            "pages of other origins that may ask, with commas between them; *: all"},
           {Kind::text, "hosts", "",
            "names in the header Host that are answered in addition to localhost, with commas "
            "between them, for a proxy that passes them on; *: all"},
           {Kind::text, "template", "",
            "chat template: chatml, llama3, qwen, alpaca, or a file that holds one; default: the "
            "model's own, and the one that a run was trained with"},
           {Kind::text, "settings", "",
            "settings of requests that do not set them: a JSON object or its file, with options of "
            "dllm generate: {\"steps\": 32, \"length\": 128}"},
           {Kind::real, "timeout", "0", "most seconds of a request; 0: no limit"},
           {Kind::number, "max-body", "8", "most MiB of the body of a request"},
           {Kind::real, "drain", "30", "most seconds that open requests get at the end"}},
          {"engine", "model", "queue"},
          serve,
          false,
          // The server removes its requests itself. One whose client is slow is never forgotten.
          {{"queue", "kept", "16777216"}},
          {"model"}};
}

} // namespace dllm::cli

// dllm compile compiles a model's program for hardware that may be absent.

#include "../../command.h"
#include "../../processes/process.h"
#include "compile_report.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

Json options_of(const Context& context, const std::string& kind) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  }));
}

std::string line_of(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The shapes need only a config.json.
std::string shapes_path(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.filename() != "config.json") return path;
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

// Runs in the child and prints one line of JSON, {"plan": {...}} or {"status", "message", "hint"}.
int compile_here(Context& context) {
  end_with_parent();
  try {
    const auto engine = open_engine(context);
    const std::string path = shapes_path(context.text("model"));
    const std::string plan = text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_engine_plan(engine.get(), path.c_str(), context.options("plan"), context.task(),
                              out, err);
    });
    std::printf("%s\n", line_of({{"plan", Json::parse(plan)}}).c_str());
    return 0;
  } catch (const Failure& failure) {
    std::printf("%s\n", line_of({{"status", dllm_status_name(failure.status())},
                                 {"message", failure.what()},
                                 {"hint", failure.hint()}})
                            .c_str());
    return kFailed;
  }
}

std::vector<std::string> targets_of(const Context& context) {
  std::vector<std::string> targets;
  std::stringstream words(Json::parse(context.option("engine", "target")).get<std::string>());
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty()) targets.push_back(word);
  }
  const bool plugin = context.option("engine", "plugin") != "\"\"";
  if (targets.empty() && plugin) targets.push_back(""); // the plugin's own device
  if (targets.empty()) {
    throw Failure(DLLM_INVALID_ARGUMENT, "no hardware and no plugin is named to compile for",
                  "name hardware with --target v5e:1x1,h100, or a plugin with --plugin cpu");
  }
  return targets;
}

Json compile_for(const Context& context, const std::string& target) {
  Json engine = options_of(context, "engine"), plan = options_of(context, "plan");
  engine["kind"] = "pjrt";
  engine["target"] = target;
  plan["format"] = "json";
  plan["texts"] = true;

  const std::string name = target.empty() ? engine.at("plugin").get<std::string>() : target;
  StatusLine status(context.json());
  ChildRequest request;
  request.arguments = {"compile",  "--in-process", "--model", context.text("model"),
                       "--config", "/dev/stdin"};
  request.input = line_of({{"engine", engine}, {"plan", plan}});
  request.time_limit = static_cast<double>(context.number("time-limit"));
  request.environment = {"TF_CPP_MIN_LOG_LEVEL=2"};
  request.most_output = size_t{1} << 30;
  request.waiting = [&](double seconds) {
    status.show(name + ": compiling, " + std::to_string(std::lround(seconds)) + " s");
    return dllm_task_is_cancelled(context.task()) == 0;
  };
  const ChildResult child = run_child(request);
  if (child.how == ChildResult::How::stopped) throw Failure(DLLM_CANCELLED, "interrupted");

  Json result = {{"target", name},
                 {"state", "ok"},
                 {"seconds", child.seconds},
                 {"cpu_seconds", child.cpu_seconds}};
  // Output of a plugin precedes the line of this program, which is the last.
  const size_t last =
      child.output.rfind('\n', child.output.size() < 2 ? 0 : child.output.size() - 2);
  const Json line =
      Json::parse(child.output.substr(last == std::string::npos ? 0 : last + 1), nullptr, false);
  if (line.is_object()) result.update(line);
  if (child.ok() && result.contains("plan")) return result;
  if (result.contains("message")) {
    result["state"] = "failed";
    return result;
  }
  const bool late = child.how == ChildResult::How::timed_out;
  result["state"] = late ? "timed_out" : "crashed";
  result["message"] = "the process that compiled " + child.story();
  if (late) result["hint"] = "give it more with --time-limit";
  result["last_words"] = child.last_lines(4);
  return result;
}

// Writes --stablehlo FILE and --optimized FILE, with one file per target.
void write_text(const Context& context, const char* argument, bool several, const Json& result) {
  if (!context.has(argument) || !result.contains("plan") || !result["plan"].contains(argument))
    return;
  const Json& text = result["plan"][argument];
  std::string path = context.text(argument);
  if (several) {
    path += ".";
    for (char c : result["target"].get<std::string>()) path += c == ':' || c == '/' ? '_' : c;
  }
  if (!text.is_string())
    throw Failure(DLLM_UNIMPLEMENTED, "this engine has no text for --" + std::string(argument));
  std::ofstream file(path, std::ios::binary);
  file << text.get<std::string>();
  if (!file.flush()) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path);
}

int compile(Context& context) {
  if (context.flag("in-process")) return compile_here(context);
  const std::vector<std::string> targets = targets_of(context);
  const bool several = targets.size() > 1;
  Json all = Json::array();
  bool failed = false;
  if (several && !context.json()) print_table_head();
  for (const std::string& target : targets) {
    Json result = compile_for(context, target);
    write_text(context, "stablehlo", several, result);
    write_text(context, "optimized", several, result);
    if (result.contains("plan")) {
      const Json optimized = result["plan"].value("optimized", Json());
      if (optimized.is_string())
        result["collectives"] = count_collectives(optimized.get<std::string>());
      for (const char* text : {"stablehlo", "optimized"}) result["plan"].erase(text);
    }
    failed = failed || result["state"] != "ok";
    if (!context.json()) several ? print_table_row(result) : print_result(result);
    std::fflush(stdout);
    all.push_back(std::move(result));
  }
  if (context.json()) std::printf("%s\n", line_of(all).c_str());
  return failed ? kFailed : 0;
}

} // namespace

Command compile_command() {
  using Kind = Argument::Kind;
  return {"compile",
          "report whether a model fits hardware, its cost and its programs, without the hardware",
          "dllm compile --model Qwen3-0.6B --what train --batch 8 --length 512 --remat true "
          "--target v5e:1x1,v4:2x2x1,h100\n"
          "  TPUs need libtpu, GPUs the CUDA plugin: scripts/fetch-plugins tpu cuda. Weights are "
          "not needed: --model may\n"
          "  be a config.json. Each target is compiled in a separate process.",
          {{Kind::text, "model", "", "a model folder, a config.json, a GGUF file or a run folder",
            true},
           {Kind::number, "time-limit", "600", "seconds that a target may take"},
           {Kind::text, "stablehlo", "", "file for the program that the compiler gets"},
           {Kind::text, "optimized", "", "file for the program that the compiler made"},
           {Kind::flag, "in-process", "",
            "compile in this process and print JSON, as the child process does"}},
          {"engine", "plan"},
          compile,
          false,
          {{"engine", "kind", "pjrt"}},
          {"model"}};
}

} // namespace dllm::cli

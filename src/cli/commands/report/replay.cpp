// dllm replay shows a saved trace in the terminal or as a picture, without a model.

#include "../../command.h"
#include "../../pictures/pictures.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path);
  std::fprintf(stderr, "wrote %s, %.1f KiB\n", path.c_str(),
               static_cast<double>(content.size()) / 1024);
}

const TraceSlot& wanted_slot(const Context& context, const Trace& trace) {
  if (!context.has("slot")) return trace.slots.front();
  const int64_t wanted = context.number("slot");
  std::string known;
  for (const TraceSlot& slot : trace.slots) {
    if (slot.number == wanted) return slot;
    known += " " + std::to_string(slot.number);
  }
  throw Failure(DLLM_NOT_FOUND, context.text("trace") + " has no slot " + std::to_string(wanted),
                "it has" + known);
}

std::vector<TokenCell> cells_of(const Trace& trace, const TraceStep& step) {
  const std::vector<std::string> texts = trace.texts_of(step);
  std::vector<TokenCell> cells;
  for (size_t i = 0; i < texts.size(); ++i)
    cells.push_back({texts[i], step.states[i], step.confidence[i]});
  return cells;
}

int play(const Context& context, const Trace& trace, const TraceSlot& slot) {
  const int64_t delay = context.number("delay");
  if (delay < 0 || delay > 60000)
    throw Failure(DLLM_INVALID_ARGUMENT,
                  "--delay " + std::to_string(delay) + " is not from 0 to 60000");
  LiveView view(stdout);
  for (const TraceStep& step : slot.steps) {
    view.show(cells_of(trace, step), {step.step, step.evaluations, step.open});
    if (!view.is_terminal()) continue;
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    if (dllm_task_is_cancelled(context.task()) != 0) return kInterrupted;
  }
  if (view.is_terminal()) return 0;
  for (const std::string& row : draw_rows(cells_of(trace, slot.steps.back()), 80, false).text)
    std::printf("%s\n", row.c_str());
  return 0;
}

void print_summary(const Trace& trace) {
  Json slots = Json::array();
  for (const TraceSlot& slot : trace.slots) {
    const TraceStep& last = slot.steps.back();
    slots.push_back({{"slot", slot.number},
                     {"steps", last.step},
                     {"nfe", last.evaluations},
                     {"open", last.open},
                     {"positions", slot.positions()},
                     {"mean_confidence", mean_confidence(cells_of(trace, last))}});
  }
  const Json summary = {{"model", trace.model},
                        {"mask_id", trace.mask_id},
                        {"tokens", trace.tokens.size()},
                        {"slots", slots}};
  std::printf("%s\n", summary.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// Writes a page or a picture in place of another one, whose first `alike` bytes are the same.
void replace_picture(const std::string& path, const std::string& content, size_t alike,
                     const std::string& option) {
  check_replaces(path, content.substr(0, alike), "a picture of dllm replay", option);
  write_file(path, content);
}

int replay(Context& context) {
  const std::string path = context.text("trace");
  const Trace trace = parse_trace(read_all(path), path == "-" ? "standard input" : path);
  if (trace.cut)
    std::fprintf(stderr, "the last line of %s was cut and is left out\n", path.c_str());
  const TraceSlot& slot = wanted_slot(context, trace);
  if (context.has("html")) {
    const std::string page = replay_html(trace);
    replace_picture(context.text("html"), page, page.find("</title>"), "--html");
  }
  if (context.has("svg")) {
    const std::string map = heat_map_svg(trace, slot);
    replace_picture(context.text("svg"), map, map.find(' '), "--svg");
  }
  if (context.json()) print_summary(trace);
  if (context.json() || context.has("html") || context.has("svg")) return 0;
  return play(context, trace, slot);
}

} // namespace

Command replay_command() {
  using Kind = Argument::Kind;
  return {"replay",
          "watch a saved trace again, or draw it as a page or a picture",
          "dllm generate --model runs/quickstart --prompt \"The wise man\" --trace trace.jsonl\n"
          "  dllm replay trace.jsonl                                  in the terminal\n"
          "  dllm replay trace.jsonl --html replay.html --svg map.svg  to look at and to keep",
          {{Kind::positional, "trace", "",
            "the file that dllm generate --trace wrote; - for standard input", true},
           {Kind::text, "html", "",
            "write a page with a time slider: one file, works without a network"},
           {Kind::text, "svg", "", "write a heat map, position by step, coloured by confidence"},
           {Kind::number, "slot", "",
            "which request the terminal and the heat map show; default: the first"},
           {Kind::number, "delay", "120", "milliseconds between two steps in the terminal"}},
          {},
          replay};
}

} // namespace dllm::cli

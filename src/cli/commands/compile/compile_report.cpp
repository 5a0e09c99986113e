#include "compile_report.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string word(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

// Returns the number between `before` and " bytes", or 0 without it.
double bytes_after(const std::string& message, std::string_view before) {
  const size_t found = message.find(before);
  return found == std::string::npos ? 0
                                    : std::strtod(message.c_str() + found + before.size(), nullptr);
}

std::string verdict(const Json& result) {
  if (!result.contains("plan")) return word(result.at("state"));
  const Json& compiled = result["plan"].at("compiled");
  const Json fits = compiled.value("fits", Json());
  return fits.is_null() ? "unknown" : fits.get<bool>() ? "yes" : "no";
}

std::string flops_text(double flops) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", flops);
  return flops > 0 ? text : "-";
}

std::string collectives_text(const Json& result) {
  if (!result.contains("collectives")) return "-";
  std::string text;
  const Json counts = result.value("collectives", Json::object());
  for (const auto& [name, count] : counts.items()) {
    text += (text.empty() ? "" : ", ") + name + " " + count.dump();
  }
  return text.empty() ? "none" : text;
}

// Returns the bytes that a rank sends in one run; 0 on one device.
double sent_bytes(const Json& plan) {
  double sent = 0;
  const Json exchanges = plan.value("exchanges", Json());
  for (const auto& [name, exchange] : exchanges.items()) sent += number(exchange, "sent");
  return sent;
}

// "all_gather 56 of 1.20 GiB, all_reduce 4 of 2.0 MiB"
std::string exchanges_text(const Json& plan) {
  std::string text;
  const Json exchanges = plan.value("exchanges", Json());
  for (const auto& [name, exchange] : exchanges.items()) {
    char calls[32];
    std::snprintf(calls, sizeof calls, "%.0f", number(exchange, "calls"));
    text += (text.empty() ? "" : ", ") + name + " " + calls + " of " +
            bytes_text(number(exchange, "sent"));
  }
  return text;
}

void row(const char* name, const std::string& value) {
  std::printf("  %-14s %s\n", name, value.c_str());
}

// Returns a text about the arguments of the program.
std::string parts_text(const Json& plan) {
  std::string text;
  for (const char* part : {"weights", "moments", "cache"}) {
    if (number(plan, part) > 0) {
      text += (text.empty() ? "" : ", ") + std::string(part) + " " + bytes_text(number(plan, part));
    }
  }
  return text.empty() ? "" : " (" + text + ")";
}

void print_bytes(const Json& plan, const Json& compiled) {
  row("arguments", bytes_text(number(compiled, "argument")) + parts_text(plan));
  row("outputs", bytes_text(number(compiled, "output")));
  row("aliased",
      bytes_text(number(compiled, "alias")) + " of the outputs take an argument's place");
  row("temporaries", bytes_text(number(compiled, "temporary")));
  row("code", bytes_text(number(compiled, "code")));
}

} // namespace

std::string bytes_text(double bytes) {
  char text[32];
  if (bytes >= 1 << 30)
    std::snprintf(text, sizeof text, "%.2f GiB", bytes / (1 << 30));
  else if (bytes >= 1 << 20)
    std::snprintf(text, sizeof text, "%.1f MiB", bytes / (1 << 20));
  else if (bytes >= 1 << 10)
    std::snprintf(text, sizeof text, "%.1f KiB", bytes / (1 << 10));
  else
    std::snprintf(text, sizeof text, "%.0f B", bytes);
  return text;
}

std::map<std::string, int64_t> count_collectives(const std::string& optimized) {
  constexpr std::string_view kNames[] = {
      "all-gather",        "all-reduce",           "reduce-scatter",    "all-to-all",
      "ragged-all-to-all", "collective-broadcast", "collective-permute"};
  std::map<std::string, int64_t> counts;
  // An instruction is "%name = shape opcode(operands)", with the opcode between a blank and a
  // parenthesis.
  for (size_t open = optimized.find('('); open != std::string::npos;
       open = optimized.find('(', open + 1)) {
    size_t begin = open;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(optimized[begin - 1])) != 0 ||
                         optimized[begin - 1] == '-')) {
      --begin;
    }
    if (begin == 0 || optimized[begin - 1] != ' ') continue;
    std::string_view opcode(optimized.data() + begin, open - begin);
    constexpr std::string_view kStart = "-start";
    if (opcode.ends_with(kStart)) opcode.remove_suffix(kStart.size());
    if (std::find(std::begin(kNames), std::end(kNames), opcode) != std::end(kNames))
      ++counts[std::string(opcode)];
  }
  return counts;
}

Room room_of(const Json& compiled) {
  Room room;
  room.has = number(compiled, "device");
  // The peak of some plugins does not include the temporaries.
  room.needs = std::max(number(compiled, "peak"),
                        number(compiled, "argument") + number(compiled, "output") -
                            number(compiled, "alias") + number(compiled, "temporary"));
  if (!compiled.contains("message")) return room;
  const auto message = compiled["message"].get<std::string>();
  room.needs = bytes_after(message, "needs ");
  room.has = bytes_after(message, ", has ");
  return room;
}

void print_result(const Json& result) {
  const auto target = result.at("target").get<std::string>();
  const std::string fits = verdict(result);
  if (!result.contains("plan")) {
    std::printf("%s: %s\n", target.c_str(), word(result.value("message", Json(fits))).c_str());
    const std::string hint = result.value("hint", "");
    if (!hint.empty()) std::printf("  %s\n", hint.c_str());
    for (const Json& line : result.value("last_words", Json::array()))
      std::printf("  | %s\n", word(line).c_str());
    return;
  }
  const Json& plan = result["plan"];
  const Json& compiled = plan.at("compiled");
  const Room room = room_of(compiled);
  const char* words = fits == "yes" ? "fits" : fits == "no" ? "does not fit" : "compiles";
  std::printf("%s: %s %s%s", target.c_str(), word(plan.at("what")).c_str(), words,
              room.needs > 0 ? ":" : "");
  if (room.needs > 0) std::printf(" needs %s", bytes_text(room.needs).c_str());
  if (room.has > 0) std::printf(" of %s", bytes_text(room.has).c_str());
  const std::string mesh = plan.value("mesh", "");
  if (sent_bytes(plan) > 0) std::printf(" on each of %s", mesh.c_str());
  std::printf("\n");
  if (number(compiled, "argument") > 0) print_bytes(plan, compiled);
  if (number(plan, "flops") > 0) {
    const double theirs = number(compiled, "flops");
    row("flops",
        flops_text(number(plan, "flops")) + " a run" +
            (theirs > 0 ? "; the compiler counts " + flops_text(theirs) + ", loops once" : ""));
  }
  if (result.contains("collectives")) row("collectives", collectives_text(result));
  if (sent_bytes(plan) > 0)
    row("sent", bytes_text(sent_bytes(plan)) + " by a rank in a run: " + exchanges_text(plan));
  if (result.contains("seconds")) {
    char seconds[96];
    std::snprintf(seconds, sizeof seconds, "%.1f s, %.1f of them in the compiler%s; %.1f s of CPU",
                  number(result, "seconds"), number(compiled, "seconds"),
                  compiled.value("from_cache", false) ? " (from the cache)" : "",
                  number(result, "cpu_seconds"));
    row("took", seconds);
  }
  if (compiled.contains("message")) row("compiler", word(compiled["message"]));
  const std::string hint = plan.value("hint", "");
  if (!hint.empty()) row("hint", hint);
}

void print_table_head() {
  std::printf("%-16s %-9s %10s %10s %10s %11s %9s %10s %8s  %s\n", "target", "fits", "needs",
              "device", "arguments", "temporaries", "flops", "sent", "seconds", "collectives");
}

void print_table_row(const Json& result) {
  const auto target = result.at("target").get<std::string>();
  const std::string fits = verdict(result);
  if (!result.contains("plan")) {
    std::printf("%-16s %-9s %s\n", target.c_str(), fits.c_str(),
                result.value("message", "").c_str());
    return;
  }
  const Json& plan = result["plan"];
  const Json& compiled = plan.at("compiled");
  const Room room = room_of(compiled);
  const auto bytes = [](double value) { return value > 0 ? bytes_text(value) : std::string("-"); };
  std::printf("%-16s %-9s %10s %10s %10s %11s %9s %10s %8.1f  %s\n", target.c_str(), fits.c_str(),
              bytes(room.needs).c_str(), bytes(room.has).c_str(),
              bytes(number(compiled, "argument")).c_str(),
              bytes(number(compiled, "temporary")).c_str(),
              flops_text(number(plan, "flops")).c_str(), bytes(sent_bytes(plan)).c_str(),
              number(result, "seconds"), collectives_text(result).c_str());
}

} // namespace dllm::cli

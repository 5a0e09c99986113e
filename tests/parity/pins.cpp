#include "pins.h"

#include "base/error.h"
#include "base/files.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

// What pins.json promises of a topic.
struct Pin : TopicCounts {
  size_t most_unread = 0;
};

Pin pin_of(const Json& entry) {
  Pin pin;
  pin.most_unread = entry.value("unread", size_t{0});
  pin.passed = entry.at("passed").get<int>();
  pin.skipped = entry.at("skipped").get<int>();
  if (entry.contains("assets")) pin.assets = entry.at("assets").get<std::map<std::string, int>>();
  return pin;
}

// `folder` is the set of `label`, the topic itself, or a tree that holds the set.
bool covers(const std::string& folder, const std::string& label) {
  const size_t cut = label.find('/');
  const std::string set = label.substr(0, cut), topic = label.substr(cut + 1);
  return file_name(folder) == set || is_directory(join_path(folder, set)) ||
         (file_name(folder) == topic && file_name(parent_path(folder)) == set);
}

std::string unread_text(const TopicCounts& topic) {
  constexpr size_t kNamed = 5;
  std::string text = fmt::format("{} arrays are never read", topic.unread.size());
  for (size_t i = 0; i < std::min(topic.unread.size(), kNamed); ++i)
    text += (i == 0 ? ": " : ", ") + topic.unread[i];
  return topic.unread.size() > kNamed ? text + ", ..." : text;
}

// "" when the counts keep what the pin promises. Cases that wait for assets read nothing.
std::string broken(const Pin& pin, const TopicCounts& got) {
  int absent = 0;
  for (const auto& [asset, cases] : got.missing) {
    const auto pinned = pin.assets.find(asset);
    const int allowed = pinned == pin.assets.end() ? 0 : pinned->second;
    if (cases > allowed)
      return fmt::format("{} cases wait for {}, pinned {}", cases, asset, allowed);
    absent += cases;
  }
  if (got.passed < pin.passed - absent)
    return fmt::format("{} cases passed, pinned {}", got.passed, pin.passed - absent);
  if (got.skipped > pin.skipped + absent)
    return fmt::format("{} cases skipped, pinned {}", got.skipped, pin.skipped + absent);
  if (absent == 0 && got.unread.size() > pin.most_unread)
    return fmt::format("{}; pinned {}", unread_text(got), pin.most_unread);
  return {};
}

} // namespace

void note_unread(const std::string& label, const TopicCounts& topic) {
  if (!topic.unread.empty()) fmt::print("note {} {}\n", label, unread_text(topic));
}

std::string counts_text(const Counts& counts) {
  Json all = Json::object();
  for (const auto& [label, topic] : counts) {
    Json entry = {{"passed", topic.passed}, {"skipped", topic.skipped}};
    if (!topic.unread.empty()) entry["unread"] = topic.unread.size();
    if (!topic.assets.empty()) entry["assets"] = topic.assets;
    all[label] = entry;
  }
  std::string text = "{";
  for (const auto& [label, entry] : all.items())
    text +=
        fmt::format("{}\n  {}: {}", text.size() > 1 ? "," : "", Json(label).dump(), entry.dump());
  return text + "\n}\n";
}

int check_pins(const std::string& path, const Counts& counts,
               const std::vector<std::string>& folders) {
  int failures = 0;
  const auto report = [&](const std::string& label, const std::string& why) {
    ++failures;
    fmt::print("FAIL {} {} ({}; parity DIR --counts FILE counts anew)\n", label, why, path);
  };
  const Json pins = parse_json(read_text(path), path);
  for (const auto& [label, entry] : pins.items()) {
    bool wanted = false;
    for (const std::string& folder : folders) wanted = wanted || covers(folder, label);
    if (!wanted) continue;
    const auto got = counts.find(label);
    if (got == counts.end()) {
      report(label, "did not run");
      continue;
    }
    const Pin pin = pin_of(entry);
    if (const std::string why = broken(pin, got->second); !why.empty())
      report(label, why);
    else if (got->second.passed > pin.passed)
      fmt::print("note {} passes {} cases, pinned {}\n", label, got->second.passed, pin.passed);
  }
  for (const auto& [label, topic] : counts) {
    if (!pins.contains(label))
      fmt::print("note {} has no pin in {}: {} passed\n", label, path, topic.passed);
  }
  return failures;
}

} // namespace dllm::parity

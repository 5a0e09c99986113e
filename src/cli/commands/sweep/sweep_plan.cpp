#include "sweep_plan.h"

#include "../../command.h"
#include "../../options/names.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKeys[] = {"out", "train", "grid", "random", "count", "seed"};
constexpr size_t kMostName = 120; // letters of a folder's name

class Reader {
public:
  Reader(const std::string& text, std::string shown)
      : shown_(std::move(shown)), plan_(Json::parse(text, nullptr, false)) {
    if (!plan_.is_object()) fail(" is not a JSON object", "{\"train\": {...}, \"grid\": {...}}");
    const std::vector<std::string> known(std::begin(kKeys), std::end(kKeys));
    for (const auto& [key, value] : plan_.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(": " + no_such("key", key, known), "there are " + listed(known));
    }
  }

  SweepPlan read() {
    SweepPlan made;
    if (!plan_.contains("out") || !plan_["out"].is_string() || plan_["out"] == "")
      fail(" names no folder for its runs", "add \"out\": \"sweeps/first\"");
    made.out = plan_["out"].get<std::string>();
    const Json base = object_of("train");
    const int64_t seed = whole("seed", 0, 0);
    const Json draws = object_of("random");
    check_names(draws);
    const int64_t count = draws.empty() ? 1 : whole("count", -1, 1);
    if (count > static_cast<int64_t>(kMostSweepRuns)) fail(" makes more than 10000 runs", "");
    if (draws.empty() && plan_.contains("count")) fail(": count is for random options", "");
    std::vector<Json> all;
    std::set<std::string> seen; // a draw may come twice
    for (const Json& point : grid_points()) {
      std::mt19937_64 random(seed_of(point, seed));
      for (int64_t i = 0; i < count; ++i) {
        Json options = point;
        for (const auto& [key, range] : draws.items()) options[key] = draw(key, range, random);
        if (seen.insert(text_of(options)).second) all.push_back(std::move(options));
        if (all.size() > kMostSweepRuns) fail(" makes more than 10000 runs", "");
      }
    }
    made.runs = runs_of(all, base);
    return made;
  }

private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint) const {
    throw UsageFailure(shown_ + what, hint);
  }

  Json object_of(const char* key) const {
    if (!plan_.contains(key)) return Json::object();
    if (!plan_[key].is_object()) fail(std::string(": ") + key + " is not a JSON object", "");
    return plan_[key];
  }

  // An option has one place, and the sweep names the folder of each run.
  void check_names(const Json& draws) const {
    const Json grid = object_of("grid");
    for (const auto* part : {&grid, &draws}) {
      for (const auto& [key, value] : part->items()) {
        const std::string shown = std::string(part == &grid ? ": grid: " : ": random: ") + key;
        if (key == "out") fail(shown + " is the folder of a run, which the sweep names", "");
        if (part == &draws && grid.contains(key))
          fail(shown + " has values in grid too", "keep one of the two");
      }
    }
  }

  // fallback -1: the key is required.
  int64_t whole(const char* key, int64_t fallback, int64_t least) const {
    if (!plan_.contains(key) && fallback >= 0) return fallback;
    if (!plan_.contains(key) || !plan_[key].is_number_integer() ||
        plan_[key].get<int64_t>() < least || plan_[key].get<int64_t>() > INT32_MAX)
      fail(std::string(": ") + key + " takes a whole number of " + std::to_string(least) +
               " and more",
           "");
    return plan_[key].get<int64_t>();
  }

  // Returns every combination of the values, the last option first to change.
  std::vector<Json> grid_points() const {
    std::vector<Json> points = {Json::object()};
    const Json grid = object_of("grid");
    for (const auto& [key, values] : grid.items()) {
      if (!values.is_array() || values.empty())
        fail(": grid: " + key + " is not a list of values", "\"" + key + "\": [1, 2]");
      if (values.size() * points.size() > kMostSweepRuns) fail(" makes more than 10000 runs", "");
      std::vector<Json> more;
      for (const Json& point : points) {
        for (const Json& value : values) {
          more.push_back(point);
          more.back()[key] = value;
        }
      }
      points = std::move(more);
    }
    return points;
  }

  Json draw(const std::string& key, const Json& range, std::mt19937_64& random) const {
    if (range.is_array() && !range.empty()) return range[random() % range.size()];
    const bool known = range.is_object() && range.contains("from") && range.contains("to") &&
                       range["from"].is_number() && range["to"].is_number();
    if (!known) {
      fail(": random: " + key + " is not a range and not a list of values",
           "\"" + key + "\": {\"from\": 1e-4, \"to\": 1e-2, \"log\": true}, or a list");
    }
    const double from = range["from"], to = range["to"];
    const bool is_log = range.contains("log") && range["log"] == true;
    if (!(from <= to) || (is_log && !(from > 0)))
      fail(": random: " + key + " has no number between its from and its to",
           is_log && !(from > 0) ? "log needs a from above 0" : "from is the smaller number");
    // 53 bits, so that every machine draws the same number
    const double share = static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = is_log ? from * std::pow(to / from, share) : from + (to - from) * share;
    if (range["from"].is_number_integer() && range["to"].is_number_integer() && !is_log)
      return static_cast<int64_t>(from) +
             static_cast<int64_t>(share * (std::floor(to) - std::floor(from) + 1));
    return rounded(value);
  }

  // Four digits are enough for a search, and fit into the name of a folder.
  static double rounded(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", value);
    return std::strtod(text, nullptr);
  }

  static std::string text_of(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  // Options whose names are equal ("a/b" and "a_b") have a checksum in their names.
  static std::vector<SweepRun> runs_of(const std::vector<Json>& all, const Json& base) {
    std::map<std::string, int64_t> times;
    for (const Json& options : all) ++times[name_of(options)];
    std::vector<SweepRun> runs;
    for (const Json& options : all) {
      SweepRun run{name_of(options), base};
      if (times[run.name] > 1) run.name = with_checksum(run.name, options);
      for (const auto& [key, value] : options.items()) run.config[key] = value;
      runs.push_back(std::move(run));
    }
    return runs;
  }

  // Returns FNV-1a of 64 bits, which is the same in every build.
  static uint64_t checksum(const std::string& text) {
    uint64_t sum = 0xcbf29ce484222325;
    for (const char c : text) sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    return sum;
  }

  // Every point has its own sequence of draws, so that its first draws do not depend on the count
  // or on the other points.
  static uint64_t seed_of(const Json& point, int64_t seed) {
    if (point.empty()) return static_cast<uint64_t>(seed);
    return checksum(std::to_string(seed) + " " + text_of(point));
  }

  static std::string with_checksum(const std::string& name, const Json& options) {
    char text[20];
    std::snprintf(text, sizeof text, "-%016llx",
                  static_cast<unsigned long long>(checksum(text_of(options))));
    return name.substr(0, kMostName - 17) + text;
  }

  // Returns "q+v" for a list of texts.
  static std::string word_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return text_of(value);
    std::string word;
    for (const Json& element : value) word += (word.empty() ? "" : "+") + word_of(element);
    return word;
  }

  static std::string name_of(const Json& options) {
    std::string name;
    for (const auto& [key, value] : options.items())
      name += (name.empty() ? "" : ",") + key + "=" + word_of(value);
    for (char& c : name) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || std::string_view("._=,+-").find(c) < 6;
      if (!is_plain) c = '_';
    }
    if (name.empty()) return "run";
    return name.size() <= kMostName ? name : with_checksum(name, options);
  }

  std::string shown_;
  Json plan_;
};

} // namespace

SweepPlan read_sweep(const std::string& text, const std::string& shown) {
  return Reader(text, shown).read();
}

} // namespace dllm::cli

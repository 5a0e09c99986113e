#include "sweep_score.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

double lowest_of(const Curve& curve) {
  double lowest = std::nan("");
  for (const Bucket& one : curve.points()) lowest = std::fmin(lowest, one.least);
  return lowest;
}

bool has_bits(const SweepScore& score) {
  return !std::isnan(score.bits);
}

struct Ranking {
  bool by_bits = false;            // every run with a held-out loss has bits per byte
  std::vector<std::string> differ; // settings that differ, where losses do not compare

  double value(const SweepScore& score) const { return by_bits ? score.bits : score.lowest; }
};

Ranking ranking_of(const std::vector<SweepScore>& scores, const std::vector<RunRecord>& runs) {
  Ranking ranking;
  ranking.by_bits = std::any_of(scores.begin(), scores.end(), has_bits) &&
                    std::all_of(scores.begin(), scores.end(), [](const SweepScore& score) {
                      return std::isnan(score.lowest) || has_bits(score);
                    });
  const auto differ = [&](const std::string& name, const auto& value_of) {
    std::set<std::string> values;
    for (const RunRecord& run : runs) {
      if (!run.held_out.empty()) values.insert(value_of(run));
    }
    if (values.size() > 1) ranking.differ.push_back(name);
  };
  const auto setting = [&](const std::string& name, const std::string& key) {
    differ(name, [&](const RunRecord& run) {
      const auto found = run.settings.find(key);
      return found == run.settings.end() ? std::string() : found->second;
    });
  };
  setting("data", "data.checksum");
  if (ranking.by_bits) return ranking;
  differ("objective", [](const RunRecord& run) { return run.objective; });
  differ("vocab", [](const RunRecord& run) { return std::to_string(run.vocab); });
  setting("tokenizer", "tokenizer");
  return ranking;
}

void print_json(const SweepPlan& plan, const std::vector<SweepScore>& scores,
                const Ranking& ranking) {
  for (const SweepScore& score : scores) {
    Json line = {{"run", plan.out + "/" + score.name},
                 {"state", score.state},
                 {"steps", score.steps},
                 {"lowest", score.lowest},
                 {"last", score.last}};
    line["lowest_bits_per_byte"] = score.bits;
    line["ranked_by"] = ranking.by_bits ? "lowest_bits_per_byte" : "lowest";
    if (!ranking.differ.empty()) line["not_comparable"] = ranking.differ;
    line["continued_from"] = score.continued;
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
}

// Returns a loss in 9 columns; "-" for a run without one.
std::string loss_text(double loss) {
  if (std::isnan(loss)) return "        -";
  char text[32];
  std::snprintf(text, sizeof text, "%9.4f", loss);
  return text;
}

void print_table(const std::vector<SweepScore>& scores) {
  const bool bits = std::any_of(scores.begin(), scores.end(), has_bits);
  std::printf("%-9s %8s %9s %9s%s  run\n", "state", "steps", "lowest", "last",
              bits ? " bits/byte" : "");
  bool any_continued = false;
  for (const SweepScore& score : scores) {
    const std::string continued = continued_text(score.continued);
    std::printf("%-9s %8lld %s %s", score.state.c_str(), static_cast<long long>(score.steps),
                loss_text(score.lowest).c_str(), loss_text(score.last).c_str());
    if (bits) std::printf(" %s", loss_text(score.bits).c_str());
    std::printf("  %s%s%s\n", score.name.c_str(), continued.empty() ? "" : "  ", continued.c_str());
    any_continued = any_continued || !continued.empty();
  }
  if (any_continued) std::printf("%s\n", kContinuedNote);
}

} // namespace

void SweepScore::read(const RunRecord& record) {
  steps = record.steps;
  if (state == "finished" && record.skipped > 0) state = "diverged"; // steps were not finite
  lowest = lowest_of(record.held_out);
  bits = lowest_of(record.bits_per_byte);
  if (!record.held_out.empty()) last = record.held_out.points().back().mean;
}

std::string continued_text(const std::vector<int64_t>& steps) {
  std::string text;
  for (const int64_t step : steps)
    text += (text.empty() ? "continued from step " : ", ") + std::to_string(step);
  return text;
}

void print_scores(const SweepPlan& plan, std::vector<SweepScore> scores,
                  const std::vector<RunRecord>& runs, bool json) {
  const Ranking ranking = ranking_of(scores, runs);
  std::stable_sort(scores.begin(), scores.end(), [&](const SweepScore& a, const SweepScore& b) {
    const double x = ranking.value(a), y = ranking.value(b);
    return x < y || (std::isnan(y) && !std::isnan(x));
  });
  if (json)
    print_json(plan, scores, ranking);
  else
    print_table(scores);
  std::fflush(stdout);
  if (ranking.differ.empty()) return;
  std::string names;
  for (const std::string& name : ranking.differ) names += (names.empty() ? "" : ", ") + name;
  std::fprintf(stderr,
               "the held-out losses do not compare between runs that differ in: %s\n      score "
               "the runs with one dllm eval each, on the same text\n",
               names.c_str());
}

} // namespace dllm::cli

#include "pictures.h"
#include "report.h"
#include "report_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

namespace dllm::cli {
namespace {

constexpr size_t kColours = 8; // "r0" .. "r7"

std::string colour_of(size_t run) {
  return "r" + std::to_string(run % kColours);
}

// Returns the shortest ends of the paths that are all different: "lr1/a", "lr2/a" for runs of two
// folders.
std::vector<std::string> short_names(const std::vector<RunRecord>& runs) {
  constexpr size_t kMostParts = 8;
  std::vector<std::string> names;
  for (size_t parts = 1; parts <= kMostParts; ++parts) {
    names.clear();
    for (const RunRecord& run : runs) {
      std::filesystem::path rest = std::filesystem::path(run.name).lexically_normal(), name;
      if (!rest.has_filename()) rest = rest.parent_path(); // "runs/first/"
      for (size_t i = 0; i < parts && rest.has_filename(); ++i, rest = rest.parent_path())
        name = name.empty() ? rest.filename() : rest.filename() / name;
      names.push_back(name.empty() ? run.name : name.string());
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

Section curves_section(const std::vector<RunRecord>& runs, const std::string& name,
                       const std::string& title, const std::string& unit, Curve RunRecord::*curve,
                       bool is_wide, const std::string& caption) {
  const std::vector<std::string> names = short_names(runs);
  Chart chart{title, "step", unit, {}};
  if (is_wide) {
    chart.width = kWide;
    chart.height = 340;
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back(series_of(runs[i].*curve, names[i], colour_of(i)));
    chart.series.back().noisy = curve != &RunRecord::held_out;
    chart.series.back().marks = curve == &RunRecord::held_out;
    // Ranges of several runs would cover each other.
    for (ChartPoint& point : chart.series.back().points) point.low = point.high = point.y;
  }
  return chart_section(name, std::move(chart), caption, "No run has a number for this.");
}

std::vector<Section> sections_of(const std::vector<RunRecord>& runs) {
  return {curves_section(
              runs, "held_out", "Held-out loss", "nats per token", &RunRecord::held_out, true,
              "Losses can be compared where data, tokenizer and objective are the same."),
          curves_section(runs, "loss", "Loss", "nats per token", &RunRecord::loss, true,
                         "Of the training batches, as moving means."),
          curves_section(runs, "throughput", "Throughput", "tokens per second", &RunRecord::speed,
                         false, "Of the training steps only; evaluations are not counted."),
          curves_section(runs, "learning_rate", "Learning rate", "", &RunRecord::rate, false,
                         "As the optimizer used it."),
          curves_section(runs, "gradient_norm", "Gradient norm", "before clipping",
                         &RunRecord::gradient, false, "Of all trained weights together.")};
}

// One column of the table of last numbers. value: NaN when a run has none.
struct Column {
  const char* title;
  double (*value)(const RunRecord&);
  int best; // -1: the lowest number is marked, 1: the highest, 0: none
};

double lowest_of(const Curve& curve) {
  double lowest = std::numeric_limits<double>::quiet_NaN();
  for (const Bucket& one : curve.points()) lowest = std::fmin(lowest, one.least);
  return lowest;
}

double last_of(const Curve& curve) {
  return curve.empty() ? std::nan("") : curve.points().back().mean;
}

constexpr Column kColumns[] = {
    {"steps", [](const RunRecord& run) { return static_cast<double>(run.steps); }, 0},
    {"tokens", [](const RunRecord& run) { return static_cast<double>(run.tokens); }, 0},
    {"loss, last tenth",
     [](const RunRecord& run) { return run.loss.empty() ? std::nan("") : end_of(run.loss); }, 0},
    {"held-out loss, last", [](const RunRecord& run) { return last_of(run.held_out); }, -1},
    {"held-out loss, lowest", [](const RunRecord& run) { return lowest_of(run.held_out); }, -1},
    {"bits per byte", [](const RunRecord& run) { return last_of(run.bits_per_byte); }, -1},
    {"tokens per second",
     [](const RunRecord& run) { return run.speed.empty() ? std::nan("") : end_of(run.speed); }, 1},
};

std::string swatch(size_t run) {
  return fmt::format("<svg class=\"chart\" viewBox=\"0 0 12 12\"><rect class=\"fill-{}\" "
                     "width=\"12\" height=\"12\" rx=\"3\"/></svg>",
                     colour_of(run));
}

// Returns the number of the run that has the best number of a column; -1 without one.
int64_t best_run(const std::vector<RunRecord>& runs, const Column& column) {
  int64_t best = -1;
  double found = std::nan("");
  for (size_t i = 0; i < runs.size(); ++i) {
    const double value = column.best * column.value(runs[i]);
    if (column.best == 0 || std::isnan(value) || value <= found) continue;
    best = static_cast<int64_t>(i);
    found = value;
  }
  return best;
}

std::string numbers_table(const std::vector<RunRecord>& runs) {
  std::string html = "<section class=\"facts\" id=\"numbers\"><h2>Last numbers</h2><table><tr>"
                     "<th>run</th>";
  for (const Column& column : kColumns) html += std::string("<th>") + column.title + "</th>";
  html += "</tr>\n";
  const std::vector<std::string> names = short_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    html += "<tr><td>" + swatch(i) + xml_text(names[i]);
    if (!runs[i].remark.empty()) html += "<br><small>" + xml_text(runs[i].remark) + "</small>";
    html += "</td>";
    for (const Column& column : kColumns) {
      const double value = column.value(runs[i]);
      const bool is_best = best_run(runs, column) == static_cast<int64_t>(i);
      html += fmt::format("<td{}>{}</td>", is_best ? " class=\"best\"" : "",
                          std::isnan(value) ? "" : short_number(value));
    }
    html += "</tr>\n";
  }
  html += "</table>";
  const bool any = std::any_of(runs.begin(), runs.end(),
                               [](const RunRecord& run) { return !run.remark.empty(); });
  if (any) html += "<p class=\"note\">" + xml_text(kContinuedNote) + "</p>";
  return html + "</section>\n";
}

// Returns the names of the settings that are not the same in all runs.
std::set<std::string> different_settings(const std::vector<RunRecord>& runs) {
  std::set<std::string> names, different;
  for (const RunRecord& run : runs) {
    for (const auto& [name, value] : run.settings) names.insert(name);
  }
  for (const std::string& name : names) {
    std::set<std::string> values;
    for (const RunRecord& run : runs) {
      const auto found = run.settings.find(name);
      values.insert(found == run.settings.end() ? "" : found->second);
    }
    if (values.size() > 1) different.insert(name);
  }
  return different;
}

std::string settings_table(const std::vector<RunRecord>& runs) {
  const std::set<std::string> different = different_settings(runs);
  std::string html = "<section class=\"facts\" id=\"settings\"><h2>Settings that differ</h2>";
  if (different.empty())
    return html + "<p class=\"note\">No recorded setting does.</p></section>\n";
  html += "<table><tr><th>setting</th>";
  for (const std::string& name : short_names(runs)) html += "<th>" + xml_text(name) + "</th>";
  html += "</tr>\n";
  for (const std::string& name : different) {
    html += "<tr><td>" + xml_text(name) + "</td>";
    for (const RunRecord& run : runs) {
      const auto found = run.settings.find(name);
      html += "<td>" + (found == run.settings.end() ? "" : xml_text(found->second)) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</table></section>\n";
}

} // namespace

std::vector<Picture> compare_pictures(const std::vector<RunRecord>& runs) {
  return pictures_of(sections_of(runs));
}

std::string compare_body(const std::vector<RunRecord>& runs) {
  std::string body = numbers_table(runs) + "<div class=\"charts\">\n";
  for (const Section& section : sections_of(runs)) body += figure_html(section);
  body += "</div>\n" + settings_table(runs);
  for (const RunRecord& run : runs) body += notes_of(run);
  return body;
}

std::string compare_html(const std::vector<RunRecord>& runs) {
  return page_html(std::to_string(runs.size()) + " runs", "compared", compare_body(runs));
}

} // namespace dllm::cli

#include "pictures.h"
#include "report_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <string_view>

namespace dllm::cli {
namespace {

// What is said about a panel, whose name is that of a number or a first word of names.
struct PanelText {
  const char *name, *title, *unit, *caption;
  bool decades = false;
};

constexpr const char* kLossParts = "loss_parts";

constexpr PanelText kPanels[] = {
    {kLossParts, "Parts of the loss", "", "Each part without its weight in the loss.", true},
    {"latent", "Latents", "",
     "Mean length of the latents, and their standard deviation. Latents that shrink say little.",
     true},
    {"cosine", "Cosine of the prediction", "", "Between predicted and true vectors; 1 is best."},
    {"snr", "SNR of the prediction", "ratio",
     "Standard deviation of the true vectors over that of the error."},
    {"time", "Mean time", "", "Of the times that were drawn for the rows."},
};

// Numbers that are parts of a loss. Each other number has the panel of its name's first word.
bool is_part_of_loss(const std::string& name) {
  constexpr const char* kNames[] = {"align", "diffusion", "distill", "entropy",
                                    "kl",    "replay",    "states"};
  return name.starts_with("loss_") || name.starts_with("nll") || name.ends_with("_nll") ||
         std::ranges::find(kNames, name) != std::end(kNames);
}

std::string title_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

PanelText text_of_panel(const std::string& name, const std::string& title) {
  for (const PanelText& row : kPanels) {
    if (name == row.name) return row;
  }
  return {name.c_str(), title.c_str(), "", ""};
}

std::string first_word(const std::string& name) {
  return name.substr(0, name.find('_'));
}

// Returns the name of the file and of the element of a panel, from a name of any characters.
std::string safe_name(const std::string& name) {
  std::string made = "metric_";
  for (const char c : name) made += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return made;
}

// Returns the names of the numbers of each panel, by its name.
std::map<std::string, std::vector<std::string>> panels_of(const RunRecord& record) {
  std::map<std::string, std::vector<std::string>> words, panels;
  for (const auto& [name, curve] : record.metrics) {
    if (is_part_of_loss(name))
      panels[kLossParts].push_back(name);
    else
      words[first_word(name)].push_back(name);
  }
  for (auto& [word, names] : words) panels[names.size() > 1 ? word : names[0]] = std::move(names);
  return panels;
}

// Returns the values with the mean 1, so that an even histogram is a line at 1.
std::vector<double> with_mean_of_one(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::isfinite(value) ? value : 0;
  std::vector<double> made;
  for (const double value : values)
    made.push_back(sum > 0 ? value * static_cast<double>(values.size()) / sum : value);
  return made;
}

ChartSeries series_over_times(const std::vector<double>& values, const std::string& name,
                              const std::string& kind) {
  ChartSeries made;
  made.name = name;
  made.kind = kind;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    const double x = (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    made.points.push_back({x, values[i], values[i], values[i]});
  }
  return made;
}

constexpr std::string_view kRows = "_rows", kShares = "_shares";

// Draws an array at some steps.
Section steps_section(const std::string& name, const std::vector<Profile>& all) {
  constexpr size_t kMostSteps = 5;
  const std::string axis = first_word(name);
  constexpr std::string_view kLosses = "_losses";
  Chart chart{name.ends_with(kLosses) ? "Loss by " + axis : title_of(name), axis, "", {}};
  chart.share_axis = true;
  const std::vector<size_t> chosen = some_of(all.size(), kMostSteps);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Profile& one = all[chosen[i]];
    const size_t shade = chosen.size() == 1 ? 4 : i * 4 / (chosen.size() - 1);
    chart.series.push_back(series_over_times(one.values,
                                             "step " + short_number(static_cast<double>(one.step)),
                                             "s" + std::to_string(shade)));
    chart.series.back().marks = true;
  }
  Section made = chart_section(safe_name(name), std::move(chart),
                               fmt::format("By {} from 0 to 1, at some steps.", axis),
                               "There is no number yet.");
  made.x_name = axis;
  return made;
}

// Draws the newest numbers of rows as bars, with the shares that they are drawn by as a line.
Section histogram_section(const std::string& axis, const std::vector<Profile>* rows,
                          const std::vector<Profile>* shares) {
  Chart chart{"Histogram of " + axis + "s", axis, "1: even", {}};
  chart.share_axis = chart.zero = true;
  if (rows != nullptr && !rows->empty()) {
    chart.series.push_back(
        series_over_times(with_mean_of_one(rows->back().values), "rows so far", "a"));
    chart.series.back().bars = true;
  }
  if (shares != nullptr && !shares->empty()) {
    chart.series.push_back(
        series_over_times(with_mean_of_one(shares->back().values), "share of the draws", "b"));
  }
  Section made = chart_section(safe_name(axis + "_histogram"), std::move(chart),
                               "Rows of the run at the newest step, and how often the next rows "
                               "are drawn there. Both are relative to even draws.",
                               "There is no number yet.");
  made.x_name = axis;
  return made;
}

} // namespace

std::vector<Section> metric_sections(const RunRecord& record) {
  constexpr size_t kColours = 8;
  std::vector<Section> all;
  for (const auto& [name, members] : panels_of(record)) {
    const std::string title = title_of(name);
    const PanelText text = text_of_panel(name, title);
    Chart chart{text.title, "step", text.unit, {}};
    chart.decades = text.decades && members.size() > 1;
    for (const std::string& member : members) {
      const std::string series =
          members.size() == 1 ? text.title : cut_to(visible_text(member), 40);
      const std::string kind =
          members.size() == 1 ? "a" : "r" + std::to_string(chart.series.size() % kColours);
      chart.series.push_back(series_of(record.metrics.at(member), series, kind));
      chart.series.back().noisy = members.size() == 1;
    }
    all.push_back(chart_section(name == kLossParts ? name : safe_name(name), std::move(chart),
                                text.caption, "No number of it can be drawn."));
  }
  // The parts of the loss come first.
  std::stable_partition(all.begin(), all.end(),
                        [](const Section& one) { return one.name == kLossParts; });
  return all;
}

std::vector<Section> profile_sections(const RunRecord& record) {
  std::vector<Section> all;
  std::map<std::string, std::pair<const std::vector<Profile>*, const std::vector<Profile>*>>
      histograms;
  for (const auto& [name, profiles] : record.profiles) {
    if (name.ends_with(kRows))
      histograms[name.substr(0, name.size() - kRows.size())].first = &profiles;
    else if (name.ends_with(kShares))
      histograms[name.substr(0, name.size() - kShares.size())].second = &profiles;
    else
      all.push_back(steps_section(name, profiles));
  }
  for (const auto& [axis, both] : histograms)
    all.push_back(histogram_section(axis, both.first, both.second));
  return all;
}

} // namespace dllm::cli

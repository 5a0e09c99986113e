#include "pictures.h"
#include "report.h"
#include "report_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace dllm::cli {
namespace {

constexpr size_t kMostRatioSteps = 5;
constexpr int kBins = 8; // of the share of corrupted tokens

Section curve_section(const std::string& name, const std::string& title, const std::string& unit,
                      const Curve& curve, bool noisy, bool zero, const std::string& caption) {
  ChartSeries series = series_of(curve, title, "a");
  series.noisy = noisy;
  Chart chart{title, "step", unit, {std::move(series)}};
  chart.zero = zero;
  return chart_section(name, std::move(chart), caption,
                       "The metrics have no number for this: no train_step line holds it.");
}

Section loss_section(const RunRecord& record) {
  ChartSeries train = series_of(record.loss, "training batches", "a"),
              held_out = series_of(record.held_out, "held out", "b");
  train.noisy = held_out.marks = true;
  std::string caption = "The loss of the objective. The loss of a batch is mostly noise, so the "
                        "strong line is a moving mean, or a mean with the range of its values.";
  if (record.held_out.empty())
    caption = "No held-out loss was recorded: the run held no text out, or computed none "
              "(--eval-batches 0).";
  Chart chart{"Loss", "step", "nats per token", {std::move(train), std::move(held_out)},
              kWide,  340};
  return chart_section("loss", std::move(chart), caption, "The metrics hold no loss.");
}

// Draws dots for rows, and a line through the means of equally wide parts of the axis.
Section ratio_section(const RunRecord& record) {
  std::vector<const Examples*> all;
  for (const Examples& one : record.examples) {
    if (!one.share.empty()) all.push_back(&one);
  }
  std::string missing =
      "No loss by mask ratio was recorded: dllm train writes it into examples.jsonl at each "
      "held-out loss, unless --examples is 0 or nothing is held out.";
  if (!record.examples.empty() && !record.examples.back().no_predictions.empty())
    missing = "There is no loss by mask ratio: " + record.examples.back().no_predictions + ".";
  Chart chart{"Loss by mask ratio", "share of tokens hidden", "nats per hidden token", {}};
  chart.share_axis = true;
  const std::vector<size_t> chosen = some_of(all.size(), kMostRatioSteps);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Examples& one = *all[chosen[i]];
    const size_t shade = chosen.size() == 1 ? 4 : i * 4 / (chosen.size() - 1);
    ChartSeries series{"step " + short_number(static_cast<double>(one.step)),
                       "s" + std::to_string(shade),
                       {},
                       false,
                       true};
    double x[kBins] = {}, y[kBins] = {}, count[kBins] = {};
    for (size_t row = 0; row < one.share.size(); ++row) {
      const int bin = std::clamp(static_cast<int>(one.share[row] * kBins), 0, kBins - 1);
      x[bin] += one.share[row];
      y[bin] += one.loss[row];
      ++count[bin];
    }
    for (int bin = 0; bin < kBins; ++bin) {
      if (count[bin] == 0) continue;
      const double mean = y[bin] / count[bin];
      series.points.push_back({x[bin] / count[bin], mean, mean, mean});
    }
    chart.series.push_back(std::move(series));
  }
  Section made =
      chart_section("mask_ratio", std::move(chart),
                    "The same held-out rows under the same noise at some steps. A point is the "
                    "mean over rows with about the same number of hidden tokens.",
                    missing);
  made.x_name = "share";
  return made;
}

std::vector<Section> sections_of(const RunRecord& record) {
  std::vector<Section> all = {loss_section(record), ratio_section(record)};
  all.push_back(curve_section("gradient_norm", "Gradient norm", "before clipping", record.gradient,
                              true, false, "Of all trained weights together."));
  all.push_back(curve_section("learning_rate", "Learning rate", "", record.rate, false, true,
                              "As the optimizer used it."));
  all.push_back(curve_section("throughput", "Throughput", "tokens per second", record.speed, true,
                              true, "Of the training steps only; evaluations are not counted."));
  std::ranges::move(metric_sections(record), std::back_inserter(all));
  std::ranges::move(profile_sections(record), std::back_inserter(all));
  if (!tower_svg(record, false).empty()) {
    Section tower = text_section("tower", "Parts of the model", "");
    tower.draw = [&record](bool style) { return tower_svg(record, style); };
    tower.caption = "Arrows go from a part to the parts that read its results.";
    all.push_back(std::move(tower));
  }
  for (size_t row = 0; row < std::min<size_t>(strip_rows(record), 3); ++row) {
    Section strip = text_section("predictions_" + std::to_string(row + 1), "Predictions",
                                 "This row holds no token.");
    if (!strips_svg(record, row, false).empty())
      strip.draw = [&record, row](bool style) { return strips_svg(record, row, style); };
    all.push_back(std::move(strip));
  }
  if (strip_rows(record) == 0) {
    all.push_back(text_section(
        "predictions", "Predictions",
        "No predictions were recorded; they are written with the loss by mask ratio."));
  }
  Section samples = text_section("samples", "Samples over time", "No sample was recorded.");
  if (!record.examples.empty() && !record.examples.back().no_sample.empty())
    samples.missing = "There is no sample: " + record.examples.back().no_sample + ".";
  if (!samples_svg(record, false).empty()) {
    samples.draw = [&record](bool style) { return samples_svg(record, style); };
    samples.caption =
        "Texts that the model wrote after the token that ends a text, always from the same seed.";
  }
  all.push_back(std::move(samples));
  return all;
}

std::string figures_of(const RunRecord& record) {
  std::string html = "<section class=\"figures\">\n";
  const auto add = [&](const std::string& number, const std::string& what) {
    html += fmt::format("<div><b>{}</b><span>{}</span></div>\n", number, what);
  };
  add(short_number(static_cast<double>(record.steps)), "steps");
  if (record.tokens > 0) add(short_number(static_cast<double>(record.tokens)), "tokens");
  if (!record.loss.empty()) add(fmt::format("{:.4g}", end_of(record.loss)), "loss, last tenth");
  if (!record.held_out.empty()) {
    const auto& points = record.held_out.points();
    const auto best = std::ranges::min_element(points, {}, &Bucket::least);
    add(fmt::format("{:.4g}", points.back().mean), "held-out loss, last");
    add(fmt::format("{:.4g}", best->least),
        "held-out loss, best, step " + short_number(static_cast<double>(best->step)));
  }
  if (!record.bits_per_byte.empty())
    add(fmt::format("{:.4g}", record.bits_per_byte.points().back().mean),
        "bits per byte, held out");
  if (!record.speed.empty()) add(short_number(end_of(record.speed)), "tokens per second");
  if (record.skipped > 0)
    add(short_number(static_cast<double>(record.skipped)), "steps skipped: not finite");
  return html + "</section>\n";
}

std::string about(const RunRecord& record) {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += (text.empty() ? "" : " \u00b7 ") + part;
  };
  if (!record.objective.empty()) add("objective " + record.objective);
  if (record.layers > 0 && record.hidden > 0)
    add(fmt::format("{} layers of width {}", record.layers, record.hidden));
  if (record.vocab > 0) add(fmt::format("vocabulary {}", record.vocab));
  return text.empty() ? "a training run" : text;
}

} // namespace

std::vector<Picture> report_pictures(const RunRecord& record) {
  return pictures_of(sections_of(record));
}

std::string report_body(const RunRecord& record) {
  std::string body = figures_of(record) + "<div class=\"charts\">\n";
  for (const Section& section : sections_of(record)) body += figure_html(section);
  return body + "</div>\n" + notes_of(record);
}

std::string report_html(const RunRecord& record) {
  return page_html(record.name, about(record), report_body(record));
}

} // namespace dllm::cli

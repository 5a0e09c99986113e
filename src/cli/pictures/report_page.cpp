#include "pictures.h"
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace dllm::cli {
namespace {

constexpr size_t kMostDrawn = 300; // points of a curve
constexpr size_t kMostRatioSteps = 5;
constexpr int kBins = 8; // of the share of corrupted tokens
constexpr int kWide = 1016;

ChartSeries series_of(const Curve& curve, const std::string& name, const std::string& kind) {
  ChartSeries made;
  made.name = name;
  made.kind = kind;
  for (const Bucket& one : curve.thinned(kMostDrawn))
    made.points.push_back({static_cast<double>(one.step), one.mean, one.least, one.most});
  return made;
}

// Returns the mean of the last tenth of a curve.
double end_of(const Curve& curve) {
  const std::vector<Bucket>& points = curve.points();
  const size_t count = std::max<size_t>(points.size() / 10, 1);
  double sum = 0, weight = 0;
  for (size_t i = points.size() - std::min(count, points.size()); i < points.size(); ++i) {
    sum += points[i].mean * static_cast<double>(points[i].count);
    weight += static_cast<double>(points[i].count);
  }
  return weight > 0 ? sum / weight : 0;
}

// One picture of the page, or a sentence about its absence.
struct Section {
  std::string name, title, caption, missing;
  std::vector<ChartSeries> series; // of a chart; for the table
  std::function<std::string(bool with_style)> draw;
  bool wide = false, scrolls = false;
};

Section text_section(const std::string& name, const std::string& title,
                     const std::string& missing) {
  Section made;
  made.name = name;
  made.title = title;
  made.missing = missing;
  made.wide = made.scrolls = true;
  return made;
}

Section chart_section(const std::string& name, Chart chart, const std::string& caption,
                      const std::string& missing) {
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.points.empty(); });
  Section made = text_section(name, chart.title, missing);
  made.caption = caption;
  made.series = chart.series;
  made.wide = made.scrolls = chart.width == kWide;
  if (chart.series.empty()) return made;
  made.draw = [chart = std::move(chart)](bool with_style) { return chart_svg(chart, with_style); };
  return made;
}

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
  return chart_section("mask_ratio", std::move(chart),
                       "The same held-out rows under the same noise at some steps. A point is the "
                       "mean over rows with about the same number of hidden tokens.",
                       missing);
}

std::vector<Section> sections_of(const RunRecord& record) {
  std::vector<Section> all = {loss_section(record), ratio_section(record)};
  all.push_back(curve_section("gradient_norm", "Gradient norm", "before clipping", record.gradient,
                              true, false, "Of all trained weights together."));
  all.push_back(curve_section("learning_rate", "Learning rate", "", record.rate, false, true,
                              "As the optimizer used it."));
  all.push_back(curve_section("throughput", "Throughput", "tokens per second", record.speed, true,
                              true, "Of the training steps only; evaluations are not counted."));
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

std::string table_of(const Section& section) {
  if (section.series.empty()) return {};
  std::string html = "<details><summary>numbers</summary><div>";
  for (const ChartSeries& series : section.series) {
    html += fmt::format("<table data-series=\"{}\"><tr><th>{}</th><th>{}</th></tr>\n",
                        xml_text(series.name), section.name == "mask_ratio" ? "share" : "step",
                        xml_text(series.name));
    for (const ChartPoint& point : series.points)
      html += fmt::format("<tr><td>{:.10g}</td><td>{:.6g}</td></tr>\n", point.x, point.y);
    html += "</table>";
  }
  return html + "</div></details>\n";
}

std::string figure(const Section& section) {
  std::string html =
      fmt::format("<figure id=\"{}\"{}>\n", section.name, section.wide ? " class=\"wide\"" : "");
  if (section.draw == nullptr) {
    return html + fmt::format("<figcaption><b>{}</b>{}</figcaption>\n</figure>\n",
                              xml_text(section.title), xml_text(section.missing));
  }
  const std::string svg = section.draw(false);
  html += section.scrolls ? "<div class=\"scroll\">" + svg + "</div>" : svg;
  if (!section.caption.empty())
    html += fmt::format("<figcaption>{}</figcaption>\n", xml_text(section.caption));
  return html + table_of(section) + "</figure>\n";
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

std::string notes(const RunRecord& record) {
  std::string text;
  if (record.bad_lines > 0)
    text += fmt::format("{} lines of the records could not be read and are left out. ",
                        record.bad_lines);
  if (record.bad_numbers > 0)
    text += fmt::format("{} numbers are not finite or larger than {:g} and are not drawn. ",
                        record.bad_numbers, kMostNumber);
  if (record.cut) text += "The last line of a file was cut and is left out. ";
  return text.empty() ? "" : "<p class=\"note\">" + text + "</p>\n";
}

void replace_all(std::string* text, std::string_view mark, const std::string& with) {
  for (size_t at = 0; (at = text->find(mark, at)) != std::string::npos; at += with.size())
    text->replace(at, mark.size(), with);
}

// Returns the text without the marks of the page.
std::string page_text(const std::string& text) {
  std::string safe = xml_text(text);
  replace_all(&safe, "@", "&#64;");
  return safe;
}

} // namespace

std::vector<Picture> report_pictures(const RunRecord& record) {
  std::vector<Picture> all;
  for (const Section& section : sections_of(record))
    all.push_back({section.name, section.draw != nullptr ? section.draw(true) : ""});
  return all;
}

std::string report_html(const RunRecord& record) {
  std::string body = figures_of(record) + "<div class=\"charts\">\n";
  for (const Section& section : sections_of(record)) body += figure(section);
  body += "</div>\n" + notes(record);
  std::string page(kReportPage);
  replace_all(&page, "@STYLE@", std::string(kReportStyle));
  replace_all(&page, "@ABOUT@", page_text(about(record)));
  replace_all(&page, "@NAME@", page_text(record.name));
  replace_all(&page, "@BODY@", body); // last: a sample may hold any of these marks
  return page;
}

} // namespace dllm::cli

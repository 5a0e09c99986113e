#include "report_section.h"

#include "pictures.h"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::cli {
namespace {

constexpr size_t kMostDrawn = 300; // points of a curve

std::string table_of(const Section& section) {
  if (section.series.empty()) return {};
  std::string html = "<details><summary>numbers</summary><div>";
  for (const ChartSeries& series : section.series) {
    html += fmt::format("<table data-series=\"{}\"><tr><th>{}</th><th>{}</th></tr>\n",
                        xml_text(series.name), xml_text(section.x_name), xml_text(series.name));
    for (const ChartPoint& point : series.points)
      html += fmt::format("<tr><td>{:.10g}</td><td>{:.6g}</td></tr>\n", point.x, point.y);
    html += "</table>";
  }
  return html + "</div></details>\n";
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

std::string figure_html(const Section& section) {
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

std::vector<Picture> pictures_of(const std::vector<Section>& sections) {
  std::vector<Picture> all;
  for (const Section& section : sections)
    all.push_back({section.name, section.draw != nullptr ? section.draw(true) : ""});
  return all;
}

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

std::string note_html(const std::string& text) {
  return "<p class=\"note\">" + xml_text(text) + "</p>\n";
}

std::string notes_of(const RunRecord& record) {
  std::string text;
  if (record.bad_lines > 0)
    text += fmt::format("{} lines of the records could not be read and are left out. ",
                        record.bad_lines);
  if (record.bad_numbers > 0)
    text += fmt::format("{} numbers are not finite or larger than {:g} and are not drawn. ",
                        record.bad_numbers, kMostNumber);
  if (record.cut) text += "The last line of a file was cut and is left out. ";
  return text.empty() ? "" : note_html(text);
}

std::string page_html(const std::string& name, const std::string& about, const std::string& body) {
  std::string page(kReportPage);
  replace_all(&page, "@STYLE@", std::string(kReportStyle));
  replace_all(&page, "@ABOUT@", page_text(about));
  replace_all(&page, "@NAME@", page_text(name));
  replace_all(&page, "@BODY@", body); // last: a sample may hold any of these marks
  return page;
}

std::string live_page(const std::string& name) {
  return page_html(name, "while it trains",
                   "<div id=\"live\"></div><script src=\"/live.js\" defer></script>");
}

} // namespace dllm::cli

#pragma once
// A Section is one picture of a page about runs, or a sentence about its absence. The pages of one
// run and of several runs are made of sections.

#include "report.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::cli {

struct Section {
  std::string name, title, caption, missing;
  std::vector<ChartSeries> series; // of a chart; for the table
  std::string x_name = "step";     // in the table
  std::function<std::string(bool with_style)> draw;
  bool wide = false, scrolls = false;
};

inline constexpr int kWide = 1016; // pixels of a picture of the whole width

// Returns a section with a text, whose picture is set later. missing: the sentence without one.
Section text_section(const std::string& name, const std::string& title, const std::string& missing);
// Returns a section with a chart. Series without points are left out.
Section chart_section(const std::string& name, Chart chart, const std::string& caption,
                      const std::string& missing);
// Returns the section as HTML. Its numbers are in a table below the chart.
std::string figure_html(const Section& section);
// Return sections of the numbers and of the arrays that only some runs have (metric_sections.cpp).
// Numbers whose names begin with the same word share a chart.
std::vector<Section> metric_sections(const RunRecord& record);
std::vector<Section> profile_sections(const RunRecord& record);
std::vector<Picture> pictures_of(const std::vector<Section>& sections);

// Returns the curve with at most 300 points. kind: as in ChartSeries.
ChartSeries series_of(const Curve& curve, const std::string& name, const std::string& kind);
// Returns the mean of the last tenth of a curve.
double end_of(const Curve& curve);
// Returns sentences about lines and numbers of a record that are left out; "" without them.
std::string notes_of(const RunRecord& record);
// Returns a whole page. body: HTML; the other texts are not.
std::string page_html(const std::string& name, const std::string& about, const std::string& body);

} // namespace dllm::cli

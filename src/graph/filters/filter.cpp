#include "graph/filters/filter.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/word_list.h"
#include "graph/filters/table.h"
#include "graph/ops.h"
#include "graph/ops/build.h"

#include <limits>
#include <sstream>

namespace dllm::graph {

void DrawRow::list() {
  if (count >= 0) return;
  count = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    ids[count] = static_cast<int32_t>(i);
    count += logits[i] > -std::numeric_limits<float>::infinity() ? 1 : 0;
  }
}

double DrawFilter::off() const {
  return counts_ids() ? static_cast<double>(std::get<int64_t>(option.default_value))
                      : std::get<double>(option.default_value);
}

Value DrawFilter::is_on(Value setting, int64_t vocab) const {
  const Value limit = ops::full_like(setting, off());
  const Value on = off() == 0 ? greater(setting, limit) : less(setting, limit);
  if (!counts_ids()) return on;
  return logical_and(on, less(setting, ops::full_like(setting, static_cast<double>(vocab))));
}

const std::vector<DrawFilter>& draw_filters() {
  static const std::vector<DrawFilter> all = [] {
    std::vector<DrawFilter> made;
    for (const auto& filter : filter_files::kTable) made.push_back(filter());
    return made;
  }();
  return all;
}

size_t filter_index(const std::string& name) {
  const DrawFilter& filter =
      need_named(draw_filters(), name, &DrawFilter::name, {.kind = "filter of draws"});
  return static_cast<size_t>(&filter - draw_filters().data());
}

FilterSet filters_of_every_program() {
  FilterSet set = 0;
  for (size_t i = 0; i < draw_filters().size(); ++i)
    set |= FilterSet{draw_filters()[i].in_every_program ? 1u : 0u} << i;
  return set;
}

FilterSettings filters_off() {
  FilterSettings settings;
  for (const DrawFilter& filter : draw_filters()) settings.push_back(filter.off());
  return settings;
}

FilterSet filters_on(const FilterSettings& settings) {
  FilterSet set = 0;
  for (size_t i = 0; i < settings.size(); ++i)
    set |= FilterSet{draw_filters()[i].is_on(settings[i]) ? 1u : 0u} << i;
  return set;
}

std::string filters_off_text() {
  std::vector<std::string> texts;
  for (const DrawFilter& filter : draw_filters())
    texts.push_back(fmt::format("{} to {}", filter.name(), filter.off()));
  return word_list(texts, "and");
}

std::vector<const DrawFilter*> named_filters(const std::string& names) {
  std::vector<const DrawFilter*> made;
  std::istringstream text(names);
  for (std::string name; std::getline(text, name, ',');)
    made.push_back(&draw_filters()[filter_index(name)]);
  return made;
}

} // namespace dllm::graph

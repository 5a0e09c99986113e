#include "pictures.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlace = "@TRACE@";

// [position, id, state, confidence in thousandths, ...] of the positions where `now` differs from `before`.
Json changes(const TraceStep* before, const TraceStep& now) {
  Json flat = Json::array();
  for (size_t i = 0; i < now.ids.size(); ++i) {
    const auto thousandths = [i](const TraceStep& step) {
      return std::lround(step.confidence[i] * 1000);
    };
    const bool same = before != nullptr && i < before->ids.size() && before->ids[i] == now.ids[i] &&
                      before->states[i] == now.states[i] &&
                      thousandths(*before) == thousandths(now);
    if (same) continue;
    flat.push_back(i);
    flat.push_back(now.ids[i]);
    flat.push_back(now.states[i]);
    flat.push_back(thousandths(now));
  }
  return flat;
}

Json slot_data(const TraceSlot& slot, int64_t most_cells) {
  const auto most_steps = static_cast<size_t>(std::max<int64_t>(
      1, most_cells / static_cast<int64_t>(std::max<size_t>(slot.positions(), 1))));
  const std::vector<size_t> kept = thinned(slot.steps.size(), most_steps);
  Json steps = Json::array();
  const TraceStep* before = nullptr;
  for (size_t index : kept) {
    const TraceStep& step = slot.steps[index];
    steps.push_back({{"step", step.step},
                     {"block", step.block},
                     {"nfe", step.evaluations},
                     {"open", step.open},
                     {"length", step.ids.size()},
                     {"changes", changes(before, step)}});
    before = &step;
  }
  return {{"slot", slot.number}, {"recorded", slot.steps.size()}, {"steps", std::move(steps)}};
}

// JSON inside a script element: nothing in it may look like markup to the HTML parser.
std::string script_text(const Json& data) {
  std::string safe;
  for (char c : data.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<')
      safe += "\\u003c";
    else if (c == '>')
      safe += "\\u003e";
    else if (c == '&')
      safe += "\\u0026";
    else
      safe += c;
  }
  return safe;
}

} // namespace

std::vector<size_t> thinned(size_t count, size_t most) {
  std::vector<size_t> kept;
  most = std::max<size_t>(most, 1);
  const size_t stride = (count + most - 1) / most;
  // Counted from the end, so that the last step is always one of them.
  for (size_t back = 0; back < count; back += stride) kept.push_back(count - 1 - back);
  std::reverse(kept.begin(), kept.end());
  return kept;
}

std::string replay_html(const Trace& trace, int64_t most_cells) {
  Json tokens = Json::object();
  for (const auto& [id, text] : trace.tokens) tokens[std::to_string(id)] = text;
  Json joined = Json::object();
  for (const auto& [ids, text] : trace.joined) joined[ids] = text;
  Json data = {{"model", trace.model},
               {"mask_id", trace.mask_id},
               {"tokens", std::move(tokens)},
               {"joined", joined},
               {"slots", Json::array()}};
  const auto share = most_cells / static_cast<int64_t>(std::max<size_t>(trace.slots.size(), 1));
  for (const TraceSlot& slot : trace.slots) data["slots"].push_back(slot_data(slot, share));
  std::string page(kReplayPage);
  const size_t at = page.find(kPlace);
  return page.replace(at, kPlace.size(), script_text(data));
}

} // namespace dllm::cli

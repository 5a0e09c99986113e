// This file has the live view of a decoder, and the replay of a trace.
#include "pictures.h"

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace dllm::cli {

namespace {

constexpr size_t kBars = 24; // steps the confidence bars reach back

winsize size_of(std::FILE* to) {
  winsize size{};
  if (ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

bool can_draw(std::FILE* to) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(to)) != 0 && (kind == nullptr || std::string_view(kind) != "dumb");
}

} // namespace

LiveView::LiveView(std::FILE* to)
    : to_(to), terminal_(can_draw(to)), colour_(terminal_ && !is_set("NO_COLOR")) {}

// Returns "step 12/64 · 20 open · confidence ▃▅▆▇ 0.81 · 14 evaluations". The bars are the means of
// the last steps; the highest mean is a full bar.
std::string LiveView::status(const std::vector<TokenCell>& cells, const Progress& progress) {
  const char* between = terminal_ ? " \u00b7 " : ", ";
  std::string line = "step " + std::to_string(progress.step);
  if (progress.planned >= progress.step && progress.planned > 0)
    line += "/" + std::to_string(progress.planned);
  line += between + std::to_string(progress.open) + " open" + between;
  const float mean = mean_confidence(cells);
  if (mean > 0) {
    means_.push_back(mean);
    const size_t first = means_.size() > kBars ? means_.size() - kBars : 0;
    char number[16];
    std::snprintf(number, sizeof number, "%.2f", static_cast<double>(mean));
    line += "confidence ";
    // The bars are relative to the highest mean, because a small model is never sure.
    const float most = *std::max_element(means_.begin(), means_.end());
    std::vector<float> heights(means_.begin() + static_cast<std::ptrdiff_t>(first), means_.end());
    for (float& height : heights) height /= most;
    if (terminal_) line += bars(heights) + " ";
    line += number + std::string(between);
  }
  return line + std::to_string(progress.evaluations) + " evaluations";
}

void LiveView::show(const std::vector<TokenCell>& cells, const Progress& progress) {
  const std::string line = status(cells, progress);
  if (!terminal_) {
    std::fprintf(to_, "%s\n", line.c_str());
    return;
  }
  const winsize size = size_of(to_);
  // The last column stays free, because some terminals begin a new row after a full row.
  const auto rows = visible_rows(draw_rows(cells, size.ws_col - 1, colour_),
                                 static_cast<size_t>(std::max(size.ws_row - 3, 1)));
  std::string frame;
  if (lines_ > 0) frame = "\x1b[" + std::to_string(lines_) + "A\r\x1b[J";
  for (const std::string& row : rows) frame += row + "\n";
  const std::string cut = cut_to(line, size.ws_col - 1);
  frame += (colour_ ? "\x1b[2m" + cut + "\x1b[0m" : cut) + "\n";
  lines_ = rows.size() + 1;
  std::fputs(frame.c_str(), to_);
  std::fflush(to_);
}

void LiveView::clear() {
  if (!terminal_ || lines_ == 0) return;
  std::fprintf(to_, "\x1b[%zuA\r\x1b[J", lines_);
  lines_ = 0;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlace = "@TRACE@";

// Returns [position, id, state, confidence in thousandths, ...] of the positions where `now`
// differs from `before`.
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
  // Indices are counted from the end, so that the last step is always included.
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

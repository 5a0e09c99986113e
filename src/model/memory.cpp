#include "model/memory.h"

#include "base/error.h"
#include "base/meter.h"

#include <algorithm>
#include <string>
#include <utility>

namespace dllm::model {
namespace {

// A config of 600 bytes can ask for 2^70 numbers.
__extension__ using Wide = unsigned __int128;

Wide numbers_of(const ParamSpec& spec) {
  Wide count = static_cast<Wide>(spec.copies());
  for (const int64_t extent : spec.element.dims()) count *= static_cast<Wide>(extent);
  return count;
}

// With a scale of 4 bytes for every row where the format has them.
Wide bytes_of(const ParamSpec& spec, const WeightFormat& format) {
  const Wide numbers = numbers_of(spec);
  const Wide bytes =
      numbers / static_cast<Wide>(format.block) * static_cast<Wide>(format.block_bytes);
  const int64_t width = spec.element.rank() > 0 ? std::max<int64_t>(1, spec.element.dim(-1)) : 1;
  return format.scales == ScalePlace::row_array ? bytes + numbers / static_cast<Wide>(width) * 4 : bytes;
}

std::string gib(Wide bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

// "embed 64.0 GiB, layers.q 12.0 GiB, ...": where the bytes are.
std::string largest(std::vector<std::pair<Wide, std::string>> stacks) {
  constexpr size_t kShown = 3;
  std::stable_sort(stacks.begin(), stacks.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(kShown, stacks.size()); ++i) {
    text += (i > 0 ? ", " : "") + stacks[i].second + " " + gib(stacks[i].first);
  }
  return text + (stacks.size() > kShown ? ", ..." : "");
}

}  // namespace

void check_memory(const graph::Engine& engine, const std::vector<ParamSpec>& specs,
                  const std::function<const WeightFormat&(const ParamSpec&)>& form_of) {
  Wide numbers = 0, bytes = 0;
  std::vector<std::pair<Wide, std::string>> stacks;
  for (const ParamSpec& spec : specs) {
    const Wide own = bytes_of(spec, form_of(spec));
    numbers += numbers_of(spec);
    bytes += own;
    stacks.emplace_back(own, spec.name);
  }
  const int64_t limit = engine.i64("memory_limit"), machine = machine_memory();
  const auto refuse = [&](int64_t room, const char* what) {
    if (room <= 0 || bytes <= static_cast<Wide>(room)) return;
    fail_with_hint("choose a smaller config, or dtype bf16 or int8", Code::resource_exhausted,
                   "the model has {} parameters, {} ({}); {} {}", numbers, gib(bytes), largest(std::move(stacks)), what,
                   gib(static_cast<Wide>(room)));
  };
  refuse(limit, "the engine's memory_limit is");
  refuse(machine, "this machine has");
}

}  // namespace dllm::model

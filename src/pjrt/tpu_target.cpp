// TPUs that libtpu compiles for without one.

#include "pjrt/target.h"

#include <algorithm>
#include <sstream>

namespace dllm::pjrt {
namespace {

std::vector<int64_t> sides_of(const std::string& grid) {
  std::vector<int64_t> sides;
  std::stringstream words(grid);
  for (std::string word; std::getline(words, word, 'x');) sides.push_back(std::stoll(word));
  return sides;
}

} // namespace

// A v4 or v5p chip has two cores that work as one device on real machines ("megacore"). libtpu
// makes a device of each core of v4 and of each chip of v5p when it is told nothing; "legacy" is
// its word for devices that are cores. The other generations have one form.
NamedValues tpu_options(const Target& target) {
  const bool v4 = target.chip == "v4", v5p = target.chip == "v5p" || target.chip == "v5";
  if (!(v4 && !target.cores) && !(v5p && target.cores)) return {};
  const std::vector<int64_t> sides = sides_of(target.grid);
  // Only cubes of 4 x 4 x 4 chips and larger close into a torus.
  const bool torus = sides.size() == 3 && std::all_of(sides.begin(), sides.end(),
                                                      [](int64_t side) { return side % 4 == 0; });
  return {{"chip_config_name", std::string(v4 ? "megacore" : "legacy")},
          {"chips_per_host_bounds", std::vector<int64_t>{2, 2, 1}},
          {"num_slices", int64_t{1}},
          {"wrap", std::vector<int64_t>(3, torus ? 1 : 0)}};
}

} // namespace dllm::pjrt

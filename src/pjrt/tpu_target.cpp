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

// A v4 chip has two cores that work as one device on real machines ("megacore"), but libtpu makes a
// device of each core when it is told nothing. Later chips have one core, or are megacore by
// themselves.
NamedValues tpu_options(const Target& target) {
  if (target.chip != "v4" || target.cores) return {};
  const std::vector<int64_t> sides = sides_of(target.grid);
  // Only cubes of 4 x 4 x 4 chips and larger close into a torus.
  const bool torus = sides.size() == 3 && std::all_of(sides.begin(), sides.end(),
                                                      [](int64_t side) { return side % 4 == 0; });
  return {{"chip_config_name", std::string("megacore")},
          {"chips_per_host_bounds", std::vector<int64_t>{2, 2, 1}},
          {"num_slices", int64_t{1}},
          {"wrap", std::vector<int64_t>(3, torus ? 1 : 0)}};
}

} // namespace dllm::pjrt

#include "pjrt/target.h"

#include "base/error.h"

#include <charconv>
#include <regex>

namespace dllm::pjrt {
namespace {

constexpr const char* kNames =
    "TPUs are named by a grid of chips: v5e:1x1, v5e:2x4, v6e:1x1, v5p:2x2x1, v4:2x2x4, "
    "v4:2x2x4/cores; GPUs by a count: h100, h100:8, h200, a100";

} // namespace

Target parse_target(std::string_view text) {
  static const std::regex kTpu(
      "(v[0-9]+[a-z]*|tpu[0-9]+[a-z]*):([0-9]{1,4}(?:x[0-9]{1,4}){1,2})(/cores)?");
  static const std::regex kGpu("([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?::([0-9]{1,4}))?");
  Target target;
  target.text = text;
  std::smatch parts;
  if (std::regex_match(target.text, parts, kTpu)) {
    target.chip = parts[1];
    target.grid = parts[2];
    target.cores = parts[3].matched;
    const bool two_cores = target.chip == "v4" || target.chip == "v5" || target.chip == "v5p";
    if (target.cores && !two_cores) {
      fail_with_hint(kNames, Code::invalid_argument,
                     "[target] {}: only chips of v4 and v5p can be cut into cores", text);
    }
    return target;
  }
  // A word such as v5e alone is a TPU without its grid, v5e-8 a name of the cloud's.
  const bool tpu = std::regex_search(target.text, std::regex("^(v[0-9]|tpu)"));
  if (tpu || !std::regex_match(target.text, parts, kGpu)) {
    fail_with_hint(kNames, Code::invalid_argument, "[target] there is no hardware named \"{}\"",
                   text);
  }
  target.maker = Target::Maker::cuda;
  target.chip = parts[1];
  const std::string count = parts[2];
  if (!count.empty()) std::from_chars(count.data(), count.data() + count.size(), target.devices);
  if (target.devices < 1 || target.devices > 64) {
    fail_with_hint(kNames, Code::invalid_argument,
                   "[target] {} GPUs of one host in \"{}\", 1 to 64 expected", target.devices,
                   text);
  }
  return target;
}

std::string Target::topology_name() const {
  return maker == Maker::tpu ? chip + ":" + grid : "cuda";
}

NamedValues Target::topology_options(const std::string& path) const {
  if (maker == Maker::tpu) return tpu_options(*this);
  // slices x hosts x devices of a host
  return {{"target_config", gpu_description(path, chip)},
          {"topology", "1x1x" + std::to_string(devices)}};
}

} // namespace dllm::pjrt

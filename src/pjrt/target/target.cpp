// Names of targets, and what plugins need to compile for them.

#include "pjrt/target/target.h"

#include "base/error.h"
#include "base/files.h"
#include "base/number.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <sstream>

namespace dllm::pjrt {

namespace {

constexpr const char* kNames =
    "TPUs are named by a grid of chips: v5e:1x1, v5e:2x4, v6e:1x1, v5p:2x2x1, v4:2x2x4, "
    "v4:2x2x4/cores; GPUs by a count: h100, h100:8, h200, a100";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_letter_or_digit(char c) {
  return is_letter(c) || is_digit(c);
}

// Removes and returns the characters at the front of `text` that fit.
std::string_view take(std::string_view& text, bool (*fits)(char)) {
  const auto end = std::find_if_not(text.begin(), text.end(), fits);
  const std::string_view taken = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(taken.size());
  return taken;
}

bool skip(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// A number of 1 to 4 digits.
bool take_number(std::string_view& text) {
  const size_t digits = take(text, is_digit).size();
  return digits >= 1 && digits <= 4;
}

bool begins_as_tpu(std::string_view text) {
  return text.starts_with("tpu") || (text.size() > 1 && text[0] == 'v' && is_digit(text[1]));
}

// Reads "v5e:2x4" or "v4:2x2x4/cores": a generation, a grid of two or three axes, and whether a
// device is a core.
bool read_tpu(std::string_view text, Target& target) {
  std::string_view rest = text;
  if (!begins_as_tpu(text)) return false;
  if (!skip(rest, "tpu")) skip(rest, "v");
  if (take(rest, is_digit).empty()) return false;
  take(rest, is_letter);
  target.chip = text.substr(0, text.size() - rest.size());
  if (!skip(rest, ":")) return false;
  const std::string_view grid = rest;
  int axes = 0;
  do {
    if (!take_number(rest)) return false;
  } while (++axes < 3 && skip(rest, "x"));
  target.grid = grid.substr(0, grid.size() - rest.size());
  target.cores = skip(rest, "/cores");
  return axes >= 2 && rest.empty();
}

// Reads "h100" or "rtx-6000:8": words and a number of devices.
bool read_gpu(std::string_view text, Target& target) {
  std::string_view rest = text;
  if (text.empty() || !is_letter(text[0])) return false;
  do {
    if (take(rest, is_letter_or_digit).empty()) return false;
  } while (skip(rest, "-"));
  target.chip = text.substr(0, text.size() - rest.size());
  if (rest.empty()) return true;
  if (!skip(rest, ":")) return false;
  const std::string_view count = rest;
  if (!take_number(rest) || !rest.empty()) return false;
  std::from_chars(count.data(), count.data() + count.size(), target.devices);
  return true;
}

} // namespace

Target parse_target(std::string_view text) {
  constexpr size_t kLongest = 64;
  if (text.size() > kLongest) {
    fail_with_hint(kNames, Code::invalid_argument,
                   "[target] the name has {} characters, expected at most {}", text.size(),
                   kLongest);
  }
  Target target;
  target.text = text;
  if (read_tpu(text, target)) {
    const bool two_cores = target.chip == "v4" || target.chip == "v5" || target.chip == "v5p";
    if (target.cores && !two_cores) {
      fail_with_hint(kNames, Code::invalid_argument,
                     "[target] {}: only chips of v4 and v5p can be cut into cores", text);
    }
    return target;
  }
  // v5e alone is a TPU without its grid, and v5e-8 is a name of the cloud. Neither is a GPU.
  if (begins_as_tpu(text) || !read_gpu(text, target)) {
    fail_with_hint(kNames, Code::invalid_argument, "[target] there is no hardware named \"{}\"",
                   text);
  }
  target.maker = Target::Maker::cuda;
  if (target.devices < 1 || target.devices > 64) {
    fail_with_hint(kNames, Code::invalid_argument,
                   "[target] {} GPUs of one host are in \"{}\", expected 1 to 64", target.devices,
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

// libtpu compiles for a TPU that this machine does not have.

namespace {

std::vector<int64_t> sides_of(const std::string& grid) {
  std::vector<int64_t> sides;
  std::stringstream words(grid);
  for (std::string word; std::getline(words, word, 'x');) sides.push_back(std::stoll(word));
  return sides;
}

} // namespace

// A chip of v4 or v5p has two cores that work as one device on real machines ("megacore"). Without
// options libtpu makes a device of each core of v4, but of each chip of v5p. Its word for devices
// that are cores is "legacy". The other generations have one form.
NamedValues tpu_options(const Target& target) {
  const bool v4 = target.chip == "v4", v5p = target.chip == "v5p" || target.chip == "v5";
  if (!(v4 && !target.cores) && !(v5p && target.cores)) return {};
  const std::vector<int64_t> sides = sides_of(target.grid);
  // Only grids of whole cubes of 4 x 4 x 4 chips close into a torus.
  const bool torus = sides.size() == 3 && std::all_of(sides.begin(), sides.end(),
                                                      [](int64_t side) { return side % 4 == 0; });
  return {{"chip_config_name", std::string(v4 ? "megacore" : "legacy")},
          {"chips_per_host_bounds", std::vector<int64_t>{2, 2, 1}},
          {"num_slices", int64_t{1}},
          {"wrap", std::vector<int64_t>(3, torus ? 1 : 0)}};
}

// The CUDA plugin compiles for a GPU that this machine does not have. The plugin's file holds
// descriptions of GPUs as text.

namespace {

constexpr std::string_view kBegin = "gpu_device_info {";

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Returns the words of letters and digits in lower case: "nvidia h100 80gb hbm3".
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (char c : lower_case(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

// Returns the rest of the line after `key: ` without quotes, or "".
std::string value_of(std::string_view text, std::string_view key) {
  const size_t found = text.find(std::string("\n") + std::string(key) + ": ");
  if (found == std::string_view::npos) return {};
  const size_t begin = found + key.size() + 3;
  std::string value(text.substr(begin, text.find('\n', begin) - begin));
  if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
  return value;
}

struct Description {
  std::string name, text;
  double bandwidth = 0;
};

// Returns the descriptions of GPUs in the plugin's file. Each is text that ends at a zero byte.
std::vector<Description> descriptions_in(const std::string& path) {
  const Bytes file = map_file(path);
  const std::string_view all(reinterpret_cast<const char*>(file.data()),
                             static_cast<size_t>(file.size()));
  std::vector<Description> found;
  for (size_t at = all.find(kBegin); at != std::string_view::npos; at = all.find(kBegin, at + 1)) {
    constexpr size_t kLongest = 1 << 16;
    const std::string_view rest = all.substr(at, kLongest);
    const size_t end = rest.find('\0');
    if (end == std::string_view::npos) continue;
    const std::string_view text = rest.substr(0, end);
    const std::string name = value_of(text, "device_description_str");
    if (name.empty() || value_of(text, "platform_name") != "CUDA") continue;
    const std::string bandwidth = value_of(text, "  memory_bandwidth");
    found.push_back({name, std::string(text), parse_number(bandwidth).value_or(0)});
  }
  return found;
}

} // namespace

std::string gpu_description(const std::string& path, std::string_view gpu) {
  const std::vector<std::string> wanted = words_of(gpu);
  const std::vector<Description> all = descriptions_in(path);
  const Description* best = nullptr;
  std::string names;
  for (const Description& one : all) {
    names += (names.empty() ? "" : ", ") + one.name;
    const std::vector<std::string> words = words_of(one.name);
    const bool fits = std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    });
    if (fits && (best == nullptr || one.bandwidth > best->bandwidth)) best = &one;
  }
  if (best != nullptr) return best->text;
  fail_with_hint(all.empty()
                     ? "is it XLA's plugin for CUDA? scripts/fetch-plugins cuda gets one"
                     : "it has " + names + "; name one by its words, joined with -: h100-pcie",
                 Code::not_found, "[target] {} describes no GPU named \"{}\"", path, gpu);
}

std::string cuda_folder(const std::string& path) {
  const std::string folder = join_path(parent_path(path), "cuda");
  return file_exists(join_path(folder, "bin/ptxas")) ? folder : "";
}

namespace {

// The folders in which XLA looks by itself: PATH and the usual folder of the toolkit.
bool has_own_cuda_tools() {
  const char* search = std::getenv("PATH");
  std::string folders = search == nullptr ? "" : search;
  folders += ":/usr/local/cuda/bin";
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find(':', at), folders.size());
    const std::string folder = folders.substr(at, end - at);
    if (!folder.empty() && file_exists(join_path(folder, "ptxas"))) return true;
    at = end + 1;
  }
  return false;
}

} // namespace

void use_cuda_folder(const std::string& folder) {
  const std::string flag = "--xla_gpu_cuda_data_dir=";
  const char* flags = std::getenv("XLA_FLAGS");
  const std::string before = flags == nullptr ? "" : flags;
  if (before.find(flag) != std::string::npos) return;
  if (folder.empty()) {
    if (has_own_cuda_tools()) return;
    fail_with_hint("scripts/fetch-plugins cuda gets it", Code::failed_precondition,
                   "[target] compiling for GPUs needs the program ptxas, which is neither next to "
                   "the plugin (cuda/bin/ptxas) nor in PATH");
  }
  const std::string all = (before.empty() ? "" : before + " ") + flag + folder;
  setenv("XLA_FLAGS", all.c_str(), 1);
}

} // namespace dllm::pjrt

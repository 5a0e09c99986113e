// Loading of plugins, and the checks before it.

#include "pjrt/plugin/plugin.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "pjrt/cache/executable_cache.h" // compiler_environment

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

namespace {

constexpr int32_t kBrokenMinor = 56; // has an extra function in the middle of the table

std::string last_load_error() {
  const char* text = ::dlerror();
  return text == nullptr ? "no reason given" : text;
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return full == nullptr ? path : full.get();
}

const abi::Api* open_table(const std::string& path) {
  if (!file_exists(path)) fail(Code::not_found, "plugin {} does not exist", path);
  check_plugin_file(path, abi::kEntrySymbol);
  // A plugin looks for its libraries next to the file by whose name it was loaded. Next to a link
  // there are none.
  void* library = ::dlopen(real_path(path).c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    fail_with_hint("try ldd on the file: a library it needs may be missing", Code::unavailable,
                   "plugin {} cannot be loaded: {}", path, last_load_error());
  }
  const auto entry = reinterpret_cast<abi::GetPjrtApi>(::dlsym(library, abi::kEntrySymbol));
  if (entry == nullptr) {
    fail_with_hint("install a wheel named *-pjrt, which holds a plugin; jaxlib holds none",
                   Code::unavailable, "{} is not a PJRT plugin: it has no {}", path,
                   abi::kEntrySymbol);
  }
  return entry();
}

void check_table(const std::string& path, const abi::Api* api) {
  if (api == nullptr) fail(Code::unavailable, "plugin {} has no table of functions", path);
  const abi::ApiVersion& version = api->version;
  if (version.major != 0 || version.minor == kBrokenMinor) {
    fail_with_hint("use another release of the plugin", Code::failed_precondition,
                   "plugin {} has API {}.{}, which this library cannot drive", path, version.major,
                   version.minor);
  }
  if (version.minor < kOldestMinor) {
    fail_with_hint("install a newer plugin", Code::failed_precondition,
                   "plugin {} is too old: its API is 0.{}, 0.{} is needed", path, version.minor,
                   kOldestMinor);
  }
}

} // namespace

Plugin::Plugin(std::string path, const abi::Api* api)
    : path_(std::move(path)), api_(api), environment_(compiler_environment()) {
  check_table(path_, api);
  abi::PluginInitializeArgs start{};
  call(*api_, &abi::Api::plugin_initialize, start);
  if (!has(&abi::Api::plugin_attributes)) return;
  abi::PluginAttributesArgs attributes{};
  call(*api_, &abi::Api::plugin_attributes, attributes);
  attributes_ = read_named_values(attributes.attributes, attributes.num_attributes);
}

const Plugin& Plugin::load(const std::string& path, bool compile_only) {
  static std::mutex mutex;
  // The map is never destroyed, because a host may exit without releasing buffers, which point to
  // plugins.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<Plugin>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Plugin>& plugin = loaded[real_path(path)];
  if (plugin == nullptr) {
    prepare_environment(compile_only);
    plugin = std::make_unique<Plugin>(path, open_table(path));
    log(LogLevel::info, "pjrt: loaded {}, API 0.{}, StableHLO {}", path, plugin->minor(),
        plugin->version("stablehlo_current_version"));
  }
  return *plugin;
}

const abi::ExtensionBase* Plugin::extension(int32_t type) const {
  const abi::ExtensionBase* at = api_->extension_start;
  while (at != nullptr && at->type != type) at = at->next;
  return at;
}

std::string Plugin::version(std::string_view attribute) const {
  if (const auto* number = find_value<int64_t>(attributes_, attribute))
    return std::to_string(*number);
  std::string text;
  if (const auto* parts = find_value<std::vector<int64_t>>(attributes_, attribute)) {
    for (int64_t part : *parts) text += (text.empty() ? "" : ".") + std::to_string(part);
  }
  return text;
}

namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE; // any
#endif

constexpr int64_t kMostBytes = int64_t{1} << 28; // of one table

class ElfFile {
public:
  explicit ElfFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat found {};
    if (fd_ >= 0 && ::fstat(fd_, &found) == 0 && S_ISREG(found.st_mode)) size_ = found.st_size;
  }
  ~ElfFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  [[noreturn]] void refuse(const std::string& why) const {
    fail_with_hint("install a wheel named *-pjrt, which holds a plugin; jaxlib holds none",
                   Code::unavailable, "{} is not a PJRT plugin: {}", path_, why);
  }

  // `count` records of a table at `offset`.
  template <class T> std::vector<T> read(uint64_t offset, uint64_t count) const {
    const uint64_t most = static_cast<uint64_t>(std::min(size_, kMostBytes)) / sizeof(T);
    if (count > most || offset > static_cast<uint64_t>(size_) - count * sizeof(T))
      refuse("a table of its ELF file is outside of the file");
    std::vector<T> records(count);
    auto* to = reinterpret_cast<char*>(records.data());
    for (size_t done = 0, all = count * sizeof(T); done < all;) {
      const ssize_t got = ::pread(fd_, to + done, all - done, static_cast<off_t>(offset + done));
      if (got <= 0) refuse("it cannot be read");
      done += static_cast<size_t>(got);
    }
    return records;
  }
  int64_t size() const { return size_; }

private:
  std::string path_;
  int fd_ = -1;
  int64_t size_ = -1; // no regular file
};

Elf64_Ehdr read_header(const ElfFile& file) {
  if (file.size() < 0) file.refuse("it is not a regular file that can be read");
  if (file.size() < static_cast<int64_t>(sizeof(Elf64_Ehdr))) file.refuse("it is not an ELF file");
  const Elf64_Ehdr header = file.read<Elf64_Ehdr>(0, 1).front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) file.refuse("it is not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    file.refuse("it is not an ELF file of 64 bits, little endian");
  if (header.e_type != ET_DYN) file.refuse("it is not a shared library");
  if (kMachine != EM_NONE && header.e_machine != kMachine)
    file.refuse(fmt::format("it is built for another machine (ELF machine {})", header.e_machine));
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr))
    file.refuse("its ELF file has no table of sections");
  return header;
}

bool defines(const ElfFile& file, const Elf64_Shdr& symbols, const Elf64_Shdr& names,
             std::string_view wanted) {
  const std::vector<char> text = file.read<char>(names.sh_offset, names.sh_size);
  for (const Elf64_Sym& symbol :
       file.read<Elf64_Sym>(symbols.sh_offset, symbols.sh_size / sizeof(Elf64_Sym))) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text.size()) continue;
    const std::string_view rest(text.data() + symbol.st_name, text.size() - symbol.st_name);
    if (rest.substr(0, rest.find('\0')) == wanted) return true;
  }
  return false;
}

} // namespace

void check_plugin_file(const std::string& path, const char* symbol) {
  const ElfFile file(path);
  const Elf64_Ehdr header = read_header(file);
  const auto sections = file.read<Elf64_Shdr>(header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    if (defines(file, section, sections[section.sh_link], symbol)) return;
  }
  file.refuse(fmt::format("it has no {}", symbol));
}

} // namespace dllm::pjrt

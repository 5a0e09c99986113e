#include "comm/mpi/library.h"

#include "base/error.h"
#include "comm/mpi/table.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <string>

namespace dllm::comm {
namespace {

constexpr const char* kFile = "libdllm_mpi.so";

std::string library_path() {
  if (const char* path = std::getenv("DLLM_MPI_LIBRARY"); path != nullptr && *path != '\0')
    return path;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&open_mpi), &here) == 0 || here.dli_fname == nullptr)
    return kFile;
  const std::string own = here.dli_fname;
  const size_t slash = own.rfind('/');
  return slash == std::string::npos ? kFile : own.substr(0, slash + 1) + kFile;
}

const dllm_mpi_table& load_table() {
  const std::string path = library_path();
  // RTLD_GLOBAL, because the plugins that Open MPI loads need the symbols of Open MPI.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    fail_with_hint("build with libopenmpi-dev installed (scripts/install-dependencies --mpi), or "
                   "name the file in DLLM_MPI_LIBRARY",
                   Code::unavailable, "processes = mpi needs {}: {}", path,
                   why == nullptr ? "it cannot be loaded" : why);
  }
  const auto entry = reinterpret_cast<const dllm_mpi_table* (*)()>(::dlsym(library, kMpiEntry));
  const dllm_mpi_table* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->version != kMpiTable) {
    fail_with_hint("install both of one release", Code::unavailable,
                   "{} belongs to another version of this library", path);
  }
  std::array<char, 400> error{};
  if (table->start(error.data(), error.size()) != 0)
    fail(Code::unavailable, "MPI does not start: {}", error.data());
  return *table;
}

class MpiTransport final : public Transport {
public:
  explicit MpiTransport(const dllm_mpi_table& table) : table_(table) {}

  int64_t rank() const override { return table_.rank(); }
  int64_t size() const override { return table_.size(); }
  Request send(int64_t to, int32_t tag, const void* bytes, int64_t count) override {
    return checked(table_.send(static_cast<int32_t>(to), tag, bytes, count));
  }
  Request receive(int64_t from, int32_t tag, void* bytes, int64_t count) override {
    return checked(table_.receive(static_cast<int32_t>(from), tag, bytes, count));
  }
  bool done(Request request) override {
    const int32_t answer = table_.test(request);
    if (answer < 0) fail_mpi();
    return answer > 0;
  }
  void drop(Request request) noexcept override { table_.drop(request); }
  std::optional<int64_t> take(int32_t tag, std::span<std::byte> room) override {
    const int32_t from = table_.take(tag, room.data(), static_cast<int64_t>(room.size()));
    if (from < -1) fail_mpi();
    return from < 0 ? std::nullopt : std::optional<int64_t>(from);
  }

private:
  [[noreturn]] static void fail_mpi() {
    fail_with_hint("start the job again: it goes on from its last checkpoint", Code::unavailable,
                   "a message to or from another rank failed in MPI");
  }
  static Request checked(void* request) {
    if (request == nullptr) fail_mpi();
    return request;
  }
  const dllm_mpi_table& table_;
};

} // namespace

std::shared_ptr<Transport> open_mpi() {
  static const dllm_mpi_table& table = load_table();
  return std::make_shared<MpiTransport>(table);
}

} // namespace dllm::comm

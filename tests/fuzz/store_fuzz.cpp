// What an object store answers: any bytes give a list, a text or an Error.
//
// Byte 0, bit 0: the rest is the XML of a list. Else responses, in the order of the requests: a
// byte (0: the usual one; bit 0: another status, one of kStatus; bit 1: a header, a byte that names
// it, a byte of length, its value; bit 2: two bytes of length and a body), after the last one the
// usual ones.

#include "base/error.h"
#include "base/files.h"
#include "base/store/address.h"
#include "base/store/objects.h"
#include "base/store/protocol.h"
#include "base/task.h"
#include "unit/object_server.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace {

using namespace dllm;

constexpr int kStatus[] = {200, 206, 204, 301, 304, 400, 403, 404,
                           409, 412, 416, 500, 503, 100, 999, 0};
constexpr const char* kHeaders[] = {
    "Content-Range", "ETag",         "Retry-After", "Content-Length",
    "Content-Type",  "x-amz-meta-a", "Location",    "Transfer-Encoding"};

class Input {
public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    const uint8_t first = rest_.empty() ? 0 : static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(rest_.empty() ? 0 : 1);
    return first;
  }
  std::string text(size_t size) {
    const std::string taken(rest_.substr(0, size));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() const { return rest_; }

private:
  std::string_view rest_;
};

test::ObjectResponse response_of(Input& bytes) {
  test::ObjectResponse made;
  const uint8_t what = bytes.byte();
  made.is_forced = (what & 7) != 0;
  if ((what & 1) != 0) made.status = kStatus[bytes.byte() % std::size(kStatus)];
  if ((what & 2) != 0) {
    const char* const name = kHeaders[bytes.byte() % std::size(kHeaders)];
    made.headers[name] = bytes.text(bytes.byte());
  }
  if ((what & 4) != 0) {
    const size_t low = bytes.byte();
    made.body = bytes.text(low + 256 * size_t{bytes.byte()});
  }
  return made;
}

test::ObjectServer& server() {
  static test::ObjectServer* const made = [] {
    auto* const fresh = new test::ObjectServer; // ends with the process
    ::setenv("AWS_MAX_ATTEMPTS", "1", 1);
    fresh->put("run/x", std::string(3000, 'x'));
    fresh->put("run/y/z", "z");
    return fresh;
  }();
  return *made;
}

void read_list(std::string_view xml) {
  for (const store::ListedObject& object : store::parse_list(xml).objects) {
    if (object.size < 0) std::abort();
    try {
      store::parse_address("s3://bucket/" + object.key);
    } catch (const Error&) {
    }
  }
}

template <class F> void attempt(F&& f) {
  try {
    f();
  } catch (const Error&) {
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input bytes(data, size);
  if ((bytes.byte() & 1) != 0) {
    attempt([&] { read_list(bytes.rest()); });
    return 0;
  }
  const auto responses = std::make_shared<std::vector<test::ObjectResponse>>();
  while (!bytes.rest().empty()) responses->push_back(response_of(bytes));
  const auto next = std::make_shared<std::atomic<size_t>>(0);
  server().set_hook([=](const test::ObjectRequest&) {
    const size_t at = next->fetch_add(1);
    return at < responses->size() ? (*responses)[at] : test::ObjectResponse{};
  });
  Task task;
  task.set_deadline(60); // a length that never comes
  const store::TransferTask transfers(&task);
  attempt([] { list_directory("s3://bucket/run"); });
  attempt([] { read_text("s3://bucket/run/x"); });
  attempt([] { open_content("s3://bucket/run/x")->read(1000, 1000); });
  server().set_hook(nullptr);
  return 0;
}

// Finds, lists and reads objects.
#include "base/store/objects.h"

#include "base/error.h"
#include "base/http/ranged_content.h"
#include "base/store/client.h"
#include "base/store/protocol.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace dllm::store {
namespace {

thread_local const Task* current_task = nullptr;

struct Found {
  int64_t size = 0;
  std::string tag; // ETag, which identifies this state of the object
};

// Returns the ETag. A proxy that compresses bodies may send the same tag as a weak one, W/"x".
std::string tag_of(const HttpResponse& response) {
  const std::string tag = response.header("etag");
  return tag.starts_with("W/") ? tag.substr(2) : tag;
}

// Returns nothing if the object does not exist.
std::optional<Found> find_object(const Client& client, const std::string& key) {
  Call call;
  call.method = "HEAD";
  call.key = key;
  const HttpResponse response = client.send(call, current_task);
  if (response.status == 404) return std::nullopt;
  if (!response.is_success()) client.fail_response("read", key, response);
  const std::string size = response.header("content-length");
  Found found{0, tag_of(response)};
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), found.size);
  if (error != std::errc() || end != size.data() + size.size() || found.size < 0)
    fail(Code::unknown, "cannot read {}: the server sent no size", client.path_of(key));
  return found;
}

std::optional<Found> find_path(const std::string& path) {
  if (parse_address(path).key.empty()) return std::nullopt;
  std::string key;
  const Client client = client_of(path, &key);
  return find_object(client, key);
}

[[noreturn]] void fail_missing(const std::string& path) {
  fail(Code::not_found, "there is no object {}", path);
}

// Ends a list that a server sends page by page, whatever the server sends.
class ListLimit {
public:
  // Fails with data_loss if a continuation token repeats or the pages are nearly empty, and with
  // out_of_range above a million entries.
  void check(const std::string& shown, const ListPage& page) {
    constexpr int64_t kMostEntries = 1'000'000, kPagesAtLeast = 100, kEntriesPerPage = 2;
    ++pages_;
    entries_ += static_cast<int64_t>(page.objects.size() + page.folders.size());
    if (!page.next.empty() && !tokens_.insert(page.next).second)
      fail(Code::data_loss, "cannot list {}: the server sent a continuation token twice", shown);
    if (pages_ > kPagesAtLeast + entries_ / kEntriesPerPage)
      fail(Code::data_loss, "cannot list {}: {} pages hold {} entries, and the list goes on", shown,
           pages_, entries_);
    if (entries_ > kMostEntries)
      fail(Code::out_of_range, "cannot list {}: it holds more than {} entries", shown,
           kMostEntries);
  }

private:
  std::set<std::string> tokens_;
  int64_t pages_ = 0, entries_ = 0;
};

// Calls page(list) for every page of the objects whose key begins with "<folder>/".
template <class Page>
void list_pages(const std::string& folder, bool is_flat, int64_t most, const Task* task,
                const Page& page) {
  std::string key;
  const Client client = client_of(folder, &key);
  Call call;
  call.method = "GET";
  ListLimit limit;
  for (std::string token;;) {
    call.query = {{"list-type", "2"},
                  {"max-keys", std::to_string(most)},
                  {"prefix", key.empty() ? "" : key + "/"}};
    if (is_flat) call.query.emplace_back("delimiter", "/");
    if (!token.empty()) call.query.emplace_back("continuation-token", token);
    const HttpResponse response = client.send(call, task);
    if (!response.is_success()) client.fail_response("list", key, response);
    const ListPage list = parse_list(response.body);
    limit.check(folder, list);
    const bool wants_more = page(list, key.empty() ? 0 : key.size() + 1);
    token = list.next;
    if (token.empty() || !wants_more) return;
  }
}

constexpr int64_t kPage = 1000; // most entries that servers send in one page

class ObjectContent final : public http::RangedContent {
public:
  explicit ObjectContent(const std::string& path)
      : RangedContent(int64_t{1} << 20), path_(path), client_(client_of(path, &key_)) {
    const std::optional<Found> found = find_object(client_, key_);
    if (!found) fail_missing(path);
    found_ = *found;
  }

  int64_t size() const override { return found_.size; }

private:
  const Task* task() const override { return current_task; }
  void fetch(int64_t at, int64_t size, char* to, const Task* task) const override {
    Call call;
    call.method = "GET";
    call.key = key_;
    call.headers["range"] = fmt::format("bytes={}-{}", at, at + size - 1);
    if (!found_.tag.empty()) call.headers["if-match"] = found_.tag;
    call.to = to;
    call.room = size;
    const HttpResponse response = client_.expect("read", call, task);
    check_state(response);
    const std::string range = response.header("content-range"),
                      wanted = fmt::format("bytes {}-{}/", at, at + size - 1);
    const bool is_whole = response.status == 200 && size == found_.size;
    const bool is_range = response.status == 206 && // "*": the server omits the size
                          (range == wanted + std::to_string(found_.size) || range == wanted + "*");
    if ((is_whole || is_range) && response.received == size) return;
    fail_with_hint("use a server that answers requests for a range of bytes as HTTP defines them",
                   Code::data_loss,
                   "cannot read {}: expected \"{}{}\", got {} bytes with status {} and \"{}\"",
                   path_, wanted, found_.size, response.received, response.status,
                   range.substr(0, 80));
  }

  // Fails if the ETag changed, because a server may ignore the header if-match.
  void check_state(const HttpResponse& response) const {
    const std::string tag = tag_of(response);
    if (tag.empty() || found_.tag.empty() || tag == found_.tag) return;
    fail_with_hint("the object was replaced while it was read", Code::data_loss,
                   "cannot read {}: its ETag is {}, before it was {}", path_, tag.substr(0, 80),
                   found_.tag.substr(0, 80));
  }

  std::string path_, key_;
  Client client_;
  Found found_;
};

} // namespace

TransferTask::TransferTask(const Task* task) : before_(std::exchange(current_task, task)) {}
TransferTask::~TransferTask() {
  current_task = before_;
}
const Task* TransferTask::current() {
  return current_task;
}

bool has_object(const std::string& path) {
  return find_path(path).has_value();
}

bool has_folder(const std::string& path) {
  bool found = false;
  list_pages(path, false, 1, current_task, [&](const ListPage& list, size_t) {
    found = !list.objects.empty();
    return false;
  });
  return found;
}

int64_t object_size(const std::string& path) {
  const std::optional<Found> found = find_path(path);
  if (!found) fail_missing(path);
  return found->size;
}

std::vector<std::string> object_names(const std::string& folder) {
  std::set<std::string> names;
  list_pages(folder, true, kPage, current_task, [&](const ListPage& list, size_t skip) {
    for (const ListedObject& object : list.objects) {
      if (object.key.size() > skip) names.insert(object.key.substr(skip));
    }
    for (const std::string& prefix : list.folders) {
      if (prefix.size() > skip + 1) names.insert(prefix.substr(skip, prefix.size() - skip - 1));
    }
    return true;
  });
  return {names.begin(), names.end()};
}

ContentRef object_content(const std::string& path) {
  return std::make_shared<ObjectContent>(path);
}

std::vector<Object> list_objects(const std::string& folder, const Task* task) {
  std::vector<Object> found;
  list_pages(folder, false, kPage, task, [&](const ListPage& list, size_t skip) {
    for (const ListedObject& object : list.objects) {
      // Other programs make a folder as a key that ends in '/'.
      if (object.key.size() > skip && object.key.back() != '/')
        found.push_back({object.key.substr(skip), object.size});
    }
    return true;
  });
  std::sort(found.begin(), found.end(),
            [](const Object& a, const Object& b) { return a.path < b.path; });
  return found;
}

} // namespace dllm::store

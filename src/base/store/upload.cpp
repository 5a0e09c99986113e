// Writes and removes objects.
#include "base/error.h"
#include "base/log.h"
#include "base/store/client.h"
#include "base/store/objects.h"
#include "base/store/protocol.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace dllm::store {
namespace {

constexpr int64_t kJoinSeconds = 300; // a server may need long to join 10,000 parts

Client file_client(const std::string& path, std::string* key) {
  Client client = client_of(path, key);
  if (key->empty())
    fail(Code::invalid_argument, "{} is a bucket, expected the path of an object in it", path);
  return client;
}

Call call_of(const char* method, const std::string& key, Query query = {}) {
  Call call;
  call.method = method;
  call.key = key;
  call.query = std::move(query);
  return call;
}

// One multipart upload. The constructor begins it, run() sends and joins the parts, and the
// destructor aborts an upload that was not joined.
class Upload {
public:
  Upload(const Client& client, const std::string& key, const InputFile& file, const Task* task)
      : client_(client), key_(key), file_(file), plan_(plan_parts(file.size())) {
    const HttpResponse response =
        client_.expect("write", call_of("POST", key_, {{"uploads", ""}}), task);
    id_ = element_text(response.body, "UploadId");
    if (id_.empty())
      fail(Code::unknown, "cannot write {}: the server sent no UploadId", client_.path_of(key_));
    tags_.resize(static_cast<size_t>(plan_.count));
  }
  ~Upload() {
    if (id_.empty()) return;
    try { // the owner of the bucket pays for parts until they are removed
      Call call = call_of("DELETE", key_, {{"uploadId", id_}});
      call.attempts = 1;
      client_.send(call, nullptr);
    } catch (const std::exception& error) {
      log(LogLevel::warn, "parts of {} could not be removed from the store: {}",
          client_.path_of(key_), error.what());
    }
  }
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Returns false if the server no longer has the upload; the caller begins a new one.
  bool run(const Task* task) {
    std::atomic<bool> is_known{true};
    run_transfers(plan_.count, task, [&](int64_t index, const Task* own) {
      if (is_known.load(std::memory_order_relaxed) && !send_part(index, own))
        is_known.store(false, std::memory_order_relaxed);
    });
    return is_known.load() && join(task);
  }

private:
  bool send_part(int64_t index, const Task* task) {
    const int64_t begin = plan_.begin(index);
    const Bytes bytes = file_.read(begin, std::min(plan_.part, file_.size() - begin));
    Call call =
        call_of("PUT", key_, {{"partNumber", std::to_string(index + 1)}, {"uploadId", id_}});
    call.body = bytes.text();
    const HttpResponse response = client_.send(call, task);
    if (error_code(response) == "NoSuchUpload") return false;
    if (!response.is_success()) client_.fail_response("write", key_, response);
    tags_[static_cast<size_t>(index)] = response.header("etag");
    if (!tags_[static_cast<size_t>(index)].empty()) return true;
    fail(Code::unknown, "cannot write {}: the server sent no ETag of part {}",
         client_.path_of(key_), index + 1);
  }

  // Joins the parts; the object appears now. If a retry finds the upload unknown, the first attempt
  // may have joined it. The result is then false and the upload is repeated, because an existing
  // object of that name may be an older one.
  bool join(const Task* task) {
    std::string list = "<CompleteMultipartUpload>";
    for (size_t i = 0; i < tags_.size(); ++i) {
      list +=
          fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1, tags_[i]);
    }
    list += "</CompleteMultipartUpload>";
    Call call = call_of("POST", key_, {{"uploadId", id_}});
    call.body = list;
    call.silence_seconds = kJoinSeconds;
    const HttpResponse response = client_.send(call, task);
    const std::string code = error_code(response); // a response with status 200 may be an error
    if (code == "NoSuchUpload" || (response.is_success() && code == "InternalError")) return false;
    if (!response.is_success() || !code.empty()) client_.fail_response("write", key_, response);
    id_.clear();
    return true;
  }

  const Client& client_;
  const std::string& key_;
  const InputFile& file_;
  const PartPlan plan_;
  std::string id_;
  std::vector<std::string> tags_;
};

} // namespace

void put_text(const std::string& path, std::string_view text, const Task* task) {
  std::string key;
  const Client client = file_client(path, &key);
  Call call = call_of("PUT", key);
  call.body = text;
  client.expect("write", call, task);
}

void put_file(const std::string& path, const std::string& local_file, const Task* task) {
  const InputFile file(local_file);
  if (plan_parts(file.size()).count == 1)
    return put_text(path, file.read(0, file.size()).text(), task);
  std::string key;
  const Client client = file_client(path, &key);
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (Upload(client, key, file, task).run(task)) return;
    log(LogLevel::info, "{}: the server has no record of the upload, which begins again", path);
  }
  fail(Code::unavailable, "cannot write {}: the server lost the upload {} times", path, kTries);
}

void remove_objects(const std::vector<std::string>& paths, const Task* task) {
  if (paths.empty()) return;
  run_transfers(static_cast<int64_t>(paths.size()), task, [&](int64_t index, const Task* own) {
    std::string key;
    const Client client = file_client(paths[static_cast<size_t>(index)], &key);
    const HttpResponse response = client.send(call_of("DELETE", key), own);
    if (!response.is_success() && response.status != 404)
      client.fail_response("remove", key, response);
  });
}

} // namespace dllm::store

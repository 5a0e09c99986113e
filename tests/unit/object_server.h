#pragma once
// An S3 server in this process that fails on demand: objects in memory, HTTP/1.1 on a port of the
// loop-back. It checks no signature; tests/script/object_store.py runs against a server that does.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dllm::test {

struct ObjectRequest {
  std::string method, key, query, body; // key: below the bucket, encoded as sent
  std::map<std::string, std::string> headers;
  int64_t number = 0; // of all requests, from 0
  bool asks(const std::string& part) const { return query.find(part) != std::string::npos; }
  // Of a read of a range, "bytes=FIRST-LAST"; else 0.
  int64_t range_bytes() const {
    const auto found = headers.find("range");
    if (found == headers.end()) return 0;
    const std::string text = found->second.substr(found->second.find('=') + 1);
    return std::stoll(text.substr(text.find('-') + 1)) - std::stoll(text) + 1;
  }
};

struct ObjectResponse {
  int status = 200;
  std::string body;
  std::map<std::string, std::string> headers;
  bool drop = false;      // the connection ends without a response
  bool silent = false;    // nothing comes until the server ends
  int64_t cut = -1;       // bytes of the body after which the connection ends
  bool is_forced = false; // what a test wants instead of the usual response
};

class ObjectServer {
public:
  // Called before the usual response, on any thread; a response with is_forced replaces it.
  using Hook = std::function<ObjectResponse(const ObjectRequest&)>;

  ObjectServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    ::listen(listener_, 64);
    const std::string endpoint = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"AWS_ENDPOINT_URL", endpoint},
                                            {"AWS_ACCESS_KEY_ID", kAccess},
                                            {"AWS_SECRET_ACCESS_KEY", kSecret},
                                            {"AWS_SESSION_TOKEN", kToken},
                                            {"AWS_REGION", "us-east-1"},
                                            {"AWS_MAX_ATTEMPTS", "3"},
                                            {"no_proxy", "127.0.0.1"}})
      ::setenv(name.c_str(), value.c_str(), 1);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~ObjectServer() {
    is_ending_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : serving_) thread.join();
  }
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  static constexpr const char* kAccess = "ACCESSKEYOFTEST";
  static constexpr const char* kSecret = "SecretKeyOfTest/0123456789";
  static constexpr const char* kToken = "TokenOfTest==";

  void set_hook(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  std::map<std::string, std::string> objects() {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  void put(const std::string& key, const std::string& content) {
    const std::lock_guard lock(mutex_);
    objects_[key] = content;
  }
  void erase(const std::string& key) {
    const std::lock_guard lock(mutex_);
    objects_.erase(key);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    objects_.clear();
    uploads_.clear();
  }
  size_t open_uploads() {
    const std::lock_guard lock(mutex_);
    return uploads_.size();
  }
  std::vector<ObjectRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  void forget_requests() {
    const std::lock_guard lock(mutex_);
    requests_.clear();
  }
  void set_page(size_t objects) { page_ = objects; } // of a list

  static ObjectResponse error(int status, const std::string& code,
                              const std::string& message = "") {
    ObjectResponse made;
    made.status = status;
    made.body = "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>";
    made.is_forced = true;
    return made;
  }

private:
  void accept_all() {
    while (!is_ending_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      serving_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    std::string data;
    ObjectRequest request;
    while (read_request(fd, data, request)) {
      const ObjectResponse response = respond(request);
      while (response.silent && !is_ending_) ::usleep(2000);
      if (response.drop || response.silent || !send_response(fd, request, response)) break;
    }
    const std::lock_guard lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
  }

  static bool more(int fd, std::string& data) {
    char buffer[65536];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got > 0) data.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  static bool read_request(int fd, std::string& data, ObjectRequest& request) {
    request = {};
    while (data.find("\r\n\r\n") == std::string::npos) {
      if (!more(fd, data)) return false;
    }
    const size_t head_end = data.find("\r\n\r\n");
    const std::string head = data.substr(0, head_end + 2);
    data.erase(0, head_end + 4);
    const size_t line_end = head.find("\r\n"), space = head.find(' ');
    request.method = head.substr(0, space);
    std::string target = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
    const size_t mark = target.find('?');
    if (mark != std::string::npos) request.query = target.substr(mark + 1);
    target = target.substr(0, mark);
    const size_t slash = target.find('/', 1);
    request.key = slash == std::string::npos ? "" : target.substr(slash + 1);
    for (size_t at = line_end + 2; at < head.size();) {
      const size_t end = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      request.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    const auto length = request.headers.find("content-length");
    const size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
    while (data.size() < size) {
      if (!more(fd, data)) return false;
    }
    request.body = data.substr(0, size);
    data.erase(0, size);
    return true;
  }

  static bool send_response(int fd, const ObjectRequest& request, const ObjectResponse& response) {
    std::string text = "HTTP/1.1 " + std::to_string(response.status) + " x\r\n";
    const bool is_head = request.method == "HEAD";
    if (!response.headers.contains("Content-Length"))
      text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    for (const auto& [name, value] : response.headers) text += name + ": " + value + "\r\n";
    text += "\r\n";
    if (!is_head)
      text += response.cut < 0 ? response.body
                               : response.body.substr(0, static_cast<size_t>(response.cut));
    for (size_t at = 0; at < text.size();) {
      const ssize_t put = ::send(fd, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (put <= 0) return false;
      at += static_cast<size_t>(put);
    }
    return response.cut < 0;
  }

  ObjectResponse respond(ObjectRequest& request) {
    Hook hook;
    {
      const std::lock_guard lock(mutex_);
      request.number = static_cast<int64_t>(requests_.size());
      requests_.push_back(request);
      hook = hook_;
    }
    if (hook) {
      ObjectResponse forced = hook(request);
      if (forced.is_forced) return forced;
    }
    const std::lock_guard lock(mutex_);
    return usual(request);
  }

  static std::string value_of(const ObjectRequest& request, const std::string& name) {
    const std::string query = "&" + request.query;
    const size_t at = query.find("&" + name + "=");
    if (at == std::string::npos) return "";
    const size_t begin = at + name.size() + 2;
    std::string found = query.substr(begin, query.find('&', begin) - begin), made;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i] != '%') {
        made += found[i];
        continue;
      }
      made += static_cast<char>(std::stoi(found.substr(i + 1, 2), nullptr, 16));
      i += 2;
    }
    return made;
  }

  static std::string tag_of(const std::string& content) {
    return "\"" + std::to_string(std::hash<std::string>()(content)) + "\"";
  }

  ObjectResponse usual(const ObjectRequest& request) {
    if (request.key.empty() && request.method == "GET") return list(request);
    if (request.asks("uploads=")) {
      const std::string id = "upload-" + std::to_string(++last_upload_);
      uploads_[id];
      ObjectResponse made;
      made.body = "<InitiateMultipartUploadResult><UploadId>" + id +
                  "</UploadId></InitiateMultipartUploadResult>";
      return made;
    }
    if (request.asks("uploadId=")) return of_upload(request);
    if (request.method == "PUT") {
      objects_[request.key] = request.body;
      ObjectResponse made;
      made.headers["ETag"] = tag_of(request.body);
      return made;
    }
    if (request.method == "DELETE") {
      objects_.erase(request.key);
      ObjectResponse made;
      made.status = 204;
      return made;
    }
    return content_of(request);
  }

  ObjectResponse content_of(const ObjectRequest& request) {
    const auto found = objects_.find(request.key);
    if (found == objects_.end()) return error(404, "NoSuchKey");
    const auto match = request.headers.find("if-match");
    if (match != request.headers.end() && match->second != tag_of(found->second))
      return error(412, "PreconditionFailed");
    ObjectResponse made;
    made.headers["ETag"] = tag_of(found->second);
    made.body = found->second;
    if (request.method == "HEAD") {
      made.headers["Content-Length"] = std::to_string(found->second.size());
      return made;
    }
    const auto range = request.headers.find("range");
    if (range == request.headers.end()) return made;
    const std::string text = range->second.substr(6);
    const size_t begin = std::stoul(text), end = std::stoul(text.substr(text.find('-') + 1));
    if (begin >= made.body.size()) return error(416, "InvalidRange");
    const std::string whole = "/" + std::to_string(made.body.size());
    made.status = 206;
    made.body = made.body.substr(begin, end - begin + 1);
    made.headers["Content-Range"] = "bytes " + std::to_string(begin) + "-" +
                                    std::to_string(begin + made.body.size() - 1) + whole;
    return made;
  }

  ObjectResponse of_upload(const ObjectRequest& request) {
    const std::string id = value_of(request, "uploadId");
    const auto upload = uploads_.find(id);
    if (upload == uploads_.end()) return error(404, "NoSuchUpload");
    ObjectResponse made;
    if (request.method == "PUT") {
      upload->second[std::stoi(value_of(request, "partNumber"))] = request.body;
      made.headers["ETag"] = tag_of(request.body);
      return made;
    }
    if (request.method == "POST") {
      std::string whole;
      for (const auto& [number, part] : upload->second) whole += part;
      objects_[request.key] = whole;
      made.body = "<CompleteMultipartUploadResult/>";
    }
    uploads_.erase(upload);
    return made;
  }

  ObjectResponse list(const ObjectRequest& request) {
    const std::string prefix = value_of(request, "prefix"),
                      after = value_of(request, "continuation-token");
    const bool is_flat = value_of(request, "delimiter") == "/";
    const size_t most = std::min<size_t>(page_, std::stoul(value_of(request, "max-keys")));
    std::string entries, last;
    std::vector<std::string> folders;
    size_t count = 0;
    bool is_cut = false;
    for (const auto& [key, content] : objects_) {
      if (!key.starts_with(prefix) || key <= after) continue;
      if (count == most) {
        is_cut = true;
        break;
      }
      ++count;
      last = key;
      const size_t slash = key.find('/', prefix.size());
      if (is_flat && slash != std::string::npos) {
        const std::string folder = key.substr(0, slash + 1);
        if (folders.empty() || folders.back() != folder) folders.push_back(folder);
        continue;
      }
      entries += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(content.size()) +
                 "</Size></Contents>";
    }
    for (const std::string& folder : folders)
      entries += "<CommonPrefixes><Prefix>" + folder + "</Prefix></CommonPrefixes>";
    ObjectResponse made;
    made.body = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><Prefix>" + prefix +
                "</Prefix>" + entries + "<IsTruncated>" + (is_cut ? "true" : "false") +
                "</IsTruncated>" +
                (is_cut ? "<NextContinuationToken>" + last + "</NextContinuationToken>" : "") +
                "</ListBucketResult>";
    return made;
  }

  int listener_ = -1;
  std::atomic<bool> is_ending_{false};
  std::atomic<size_t> page_{1000};
  std::thread accepting_;
  std::mutex mutex_; // of all below
  std::list<std::thread> serving_;
  std::vector<int> open_;
  Hook hook_;
  std::vector<ObjectRequest> requests_;
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::map<int, std::string>> uploads_;
  int last_upload_ = 0;
};

} // namespace dllm::test

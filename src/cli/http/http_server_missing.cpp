// The server of a build without libevent.

#include "http_server.h"

namespace dllm::cli {

struct HttpServer::State {};

HttpServer::HttpServer(const HttpSettings&, Handler) {
  throw Failure(DLLM_UNIMPLEMENTED, "this build of dllm has no HTTP server",
                "install libevent-dev and build again: scripts/install-dependencies has it");
}

HttpServer::~HttpServer() = default;

void HttpServer::on_answer(std::function<void(const std::string&, int)>) {}

int64_t HttpServer::port() const {
  return 0;
}

void HttpServer::run(const std::function<void()>&) {}
void HttpServer::stop() {}
void HttpServer::wake() {}

} // namespace dllm::cli

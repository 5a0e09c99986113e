#include "slow_clients_libevent.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>

#include <sys/socket.h>

#include <string_view>

namespace dllm::cli {
namespace {

constexpr std::string_view kTooSlow =
    "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
constexpr std::chrono::minutes kForgotten{10};

// Sends a client the status 408, and ends its connection. libevent reads the end.
void end_connection(bufferevent* connection) {
  const evutil_socket_t socket = bufferevent_getfd(connection);
  if (socket < 0) return;
  [[maybe_unused]] const ssize_t ignored =
      ::send(socket, kTooSlow.data(), kTooSlow.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(socket, SHUT_RDWR);
}

} // namespace

void SlowClients::look_at(evhttp* server, double most) {
  most_ = std::chrono::duration<double>(most);
  if (most > 0) evhttp_set_bevcb(server, on_connection, this);
}

bufferevent* SlowClients::on_connection(event_base* base, void* self) {
  bufferevent* made = bufferevent_socket_new(base, -1, 0);
  if (made == nullptr) return nullptr;
  evbuffer_add_cb(bufferevent_get_input(made), on_bytes, self);
  static_cast<SlowClients*>(self)->begin(made, Phase::idle);
  return made;
}

void SlowClients::begin(bufferevent* connection, Phase phase) {
  clients_[bufferevent_get_input(connection)] = {connection, phase, Clock::now()};
}

void SlowClients::has_request(bufferevent* connection) {
  begin(connection, Phase::answered);
}

void SlowClients::has_answer(bufferevent* connection) {
  begin(connection, Phase::idle);
}

void SlowClients::on_bytes(evbuffer* input, const evbuffer_cb_info* info, void* self) {
  if (info->n_added == 0) return;
  auto& clients = *static_cast<SlowClients*>(self);
  const auto found = clients.clients_.find(input);
  if (found == clients.clients_.end()) return;
  Client& client = found->second;
  // Requests that wait behind an answer are read when the client has taken it.
  const bool is_sending = evbuffer_get_length(bufferevent_get_output(client.connection)) > 0;
  if (is_sending && client.phase == Phase::receiving) client.since = Clock::now();
  if (client.phase == Phase::idle)
    clients.begin(client.connection, Phase::receiving);
  else if (client.phase == Phase::receiving && Clock::now() - client.since > clients.most_)
    end_connection(client.connection);
}

void SlowClients::forget_old() {
  const Clock::time_point now = Clock::now();
  if (now - forgot_at_ < kForgotten) return;
  forgot_at_ = now;
  const auto most = std::chrono::duration_cast<Clock::duration>(most_) + kForgotten;
  std::erase_if(clients_, [&](const auto& row) { return now - row.second.since > most; });
}

} // namespace dllm::cli

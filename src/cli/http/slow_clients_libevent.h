#pragma once
// SlowClients ends connections of a server on libevent whose clients send a request byte by byte.
// libevent itself ends those that send nothing.

#include <chrono>
#include <map>

struct bufferevent;
struct evbuffer;
struct evbuffer_cb_info;
struct event_base;
struct evhttp;

namespace dllm::cli {

class SlowClients {
public:
  // Looks at the connections of a server from now on. most: seconds in which a request has to be
  // there; 0: no limit. The object stays at its place, and lives longer than the server.
  void look_at(evhttp* server, double most);
  // A request of a connection is there, and its answer begins to be made.
  void has_request(bufferevent* connection);
  // The connection has its answer. The time of a next request begins with its first byte.
  void has_answer(bufferevent* connection);
  // Forgets connections that were not heard of for a long time. Most of them have ended.
  void forget_old();

private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { idle, receiving, answered };
  struct Client {
    bufferevent* connection;
    Phase phase;
    Clock::time_point since; // of the phase
  };

  static bufferevent* on_connection(event_base* base, void* self);
  static void on_bytes(evbuffer* input, const evbuffer_cb_info* info, void* self);
  void begin(bufferevent* connection, Phase phase);

  std::chrono::duration<double> most_{0};
  // By the input of a connection. It may have ended: its pointers are used in on_bytes alone, which
  // libevent calls for a connection that is there.
  std::map<const evbuffer*, Client> clients_;
  Clock::time_point forgot_at_ = Clock::now();
};

} // namespace dllm::cli

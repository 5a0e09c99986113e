// libdllm_mpi.so: sends messages over MPI through a table of functions. A mutex serialises the
// calls (MPI_THREAD_SERIALIZED); the calls do not block, so several threads inside MPI would gain
// nothing.
#include "comm/mpi/table.h"

#define OMPI_SKIP_MPICXX 1 // leaves out the old C++ interface
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

namespace {

std::mutex calls;
MPI_Comm world = MPI_COMM_NULL; // a duplicate, separate from the messages of the host
int own_rank = 0, own_size = 1;
pid_t started_in = 0;

bool is_interrupt(int status) {
  return status == 128 + SIGINT || status == 128 + SIGTERM || status == 128 + SIGHUP;
}

// Ends the job if this process ends with an error, because other processes would wait for it.
void at_exit(int status, void*) {
  int over = 0;
  if (getpid() != started_in || MPI_Finalized(&over) != MPI_SUCCESS || over != 0) return;
  if (status == 0 || is_interrupt(status))
    MPI_Finalize();
  else
    MPI_Abort(MPI_COMM_WORLD, status);
}

const char* start_mpi() {
  int running = 0, over = 0, threads = MPI_THREAD_SINGLE;
  MPI_Finalized(&over);
  if (over != 0) return "it was ended in this process before";
  MPI_Initialized(&running);
  if (running == 0) {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS)
      return "MPI_Init_thread failed";
    started_in = getpid();
    on_exit(at_exit, nullptr);
  }
  MPI_Query_thread(&threads);
  if (threads < MPI_THREAD_SERIALIZED)
    return "it runs with fewer threads than MPI_THREAD_SERIALIZED";
  if (MPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS) return "MPI_Comm_dup failed";
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, &own_rank);
  MPI_Comm_size(world, &own_size);
  return nullptr;
}

int32_t start(char* error, int64_t room) {
  const std::lock_guard lock(calls);
  if (world != MPI_COMM_NULL) return 0;
  const char* why = start_mpi();
  if (why == nullptr) return 0;
  std::snprintf(error, static_cast<size_t>(room), "%s", why);
  return 1;
}

int32_t rank() {
  return own_rank;
}
int32_t size() {
  return own_size;
}

void* send(int32_t to, int32_t tag, const void* bytes, int64_t count) {
  const std::lock_guard lock(calls);
  auto* request = new (std::nothrow) MPI_Request;
  if (request == nullptr) return nullptr;
  if (MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, tag, world, request) == MPI_SUCCESS)
    return request;
  delete request;
  return nullptr;
}

void* receive(int32_t from, int32_t tag, void* bytes, int64_t count) {
  const std::lock_guard lock(calls);
  auto* request = new (std::nothrow) MPI_Request;
  if (request == nullptr) return nullptr;
  if (MPI_Irecv(bytes, static_cast<int>(count), MPI_BYTE, from, tag, world, request) == MPI_SUCCESS)
    return request;
  delete request;
  return nullptr;
}

int32_t test(void* handle) {
  const std::lock_guard lock(calls);
  auto* request = static_cast<MPI_Request*>(handle);
  int over = 0;
  const int status = MPI_Test(request, &over, MPI_STATUS_IGNORE);
  if (status == MPI_SUCCESS && over == 0) return 0;
  delete request;
  return status == MPI_SUCCESS ? 1 : -1;
}

// Cancels a message and waits up to 20 ms. A receive that can no longer be cancelled has a matching
// message, whose bytes arrive at once, or never if the sender has ended. A send without a receive
// stays in MPI.
void drop(void* handle) {
  const std::lock_guard lock(calls);
  auto* request = static_cast<MPI_Request*>(handle);
  MPI_Cancel(request);
  const auto start = std::chrono::steady_clock::now();
  int over = 0;
  while (over == 0 && std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) {
    if (MPI_Test(request, &over, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
  }
  if (over == 0 && *request != MPI_REQUEST_NULL) MPI_Request_free(request);
  delete request;
}

int32_t take(int32_t tag, void* bytes, int64_t count) {
  const std::lock_guard lock(calls);
  int waiting = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, world, &waiting, &status) != MPI_SUCCESS) return -2;
  if (waiting == 0) return -1;
  const int from = status.MPI_SOURCE;
  return MPI_Recv(bytes, static_cast<int>(count), MPI_BYTE, from, tag, world, MPI_STATUS_IGNORE) ==
                 MPI_SUCCESS
             ? from
             : -2;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const dllm_mpi_table* dllm_mpi() {
  static const dllm_mpi_table table{
      dllm::comm::kMpiTable, start, rank, size, send, receive, test, drop, take};
  return &table;
}

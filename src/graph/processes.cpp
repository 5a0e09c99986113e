#include "graph/processes.h"

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <exception>

namespace dllm::graph {

// Rank numbers are row-major, so a process has whole axes, beginning with the last one, and then a
// share of one axis.
ProcessMesh::ProcessMesh(const Mesh& whole, int64_t count) {
  const int64_t ranks = whole.ranks();
  // left: the ranks of a process that are not assigned to axes yet
  int64_t left = count > 0 && ranks % count == 0 ? ranks / count : 0;
  for (int i = kAxisCount - 1; i >= 0 && left > 0; --i) {
    const auto axis = static_cast<Axis>(i);
    const int64_t size = whole.size(axis), share = std::min(left, size);
    left = size % share == 0 && left % share == 0 ? left / share : 0;
    if (left == 0) break;
    here.set(axis, share);
    processes.set(axis, size / share);
  }
  if (left == 1) return;
  fail_with_hint("start as many processes as the ranks of the first axes, or a divisor of them",
                 Code::invalid_argument, "a mesh of {} cannot be shared out between {} processes",
                 whole.text(), count);
}

namespace {

// Returns the error of a process as JSON, from which the other processes throw it.
Json report_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return {
        {"code", static_cast<int>(error.code())}, {"text", error.text()}, {"hint", error.hint()}};
  } catch (const std::exception& error) {
    return {{"code", static_cast<int>(Code::internal)}, {"text", error.what()}, {"hint", ""}};
  }
}

} // namespace

void run_together(const WordExchange& exchange, bool here, const std::function<void()>& work) {
  std::exception_ptr failure;
  try {
    if (here) work();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::vector<std::string> words =
      exchange(failure == nullptr ? "" : report_of(failure).dump());
  if (failure != nullptr) std::rethrow_exception(failure);
  for (size_t process = 0; process < words.size(); ++process) {
    if (words[process].empty()) continue;
    if (words[process][0] != '{') {
      fail_with_hint("do all processes see the same files?", Code::failed_precondition,
                     "rank {} makes another call than this one", process);
    }
    const Json report = parse_json(words[process], "the report of a rank");
    throw Error(static_cast<Code>(report.at("code").get<int>()),
                fmt::format("rank {} failed: {}", process, report.at("text").get<std::string>()),
                report.at("hint").get<std::string>());
  }
}

} // namespace dllm::graph

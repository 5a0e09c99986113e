#include "cases.h"

#include "dllm/base.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

namespace sweep {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// What a case expects of a function that returns a status.
enum class Expect { anything, failure, refusal }; // refusal: DLLM_INVALID_ARGUMENT

class Sweep {
public:
  Sweep(const Function& function, Fixtures& fixtures, const Settings& settings, char* progress,
        size_t progress_size)
      : function_(function), fixtures_(fixtures), settings_(settings), progress_(progress),
        progress_size_(progress_size), call_(function, fixtures.symbol(function.name)) {}

  Report run() {
    all_null();
    for (size_t i = 0; i < function_.params.size(); ++i) {
      const Param& param = function_.params[i];
      if (param.pointer) null_pointer(i);
      if (param.kind == "handle") wrong_handles(i);
      if (param.kind == "pointer") other_pointer(i);
      if (param.kind == "str") garbage_text(i);
      if (param.kind == "bytes") garbage_bytes(i);
      if (param.kind == "array") garbage_array(i);
      if (param.kind == "length" || param.kind == "i64") bad_count(i);
      if (param.kind == "i32") bad_choice(i);
      if (param.kind == "f64") bad_real(i);
    }
    return report_;
  }

private:
  void all_null() {
    for (int64_t number : {int64_t{0}, int64_t{-1}, kMin, kMax}) {
      std::vector<Value> arguments(function_.params.size());
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (!function_.params[i].pointer) arguments[i].i64 = number;
      }
      // Every function that can fail has a pointer that must be there.
      attempt("all NULL, numbers " + std::to_string(number), arguments, Expect::refusal);
    }
  }

  void null_pointer(size_t index) {
    const Param& param = function_.params[index];
    auto arguments = fixtures_.arguments(function_);
    arguments[index].pointer = nullptr;
    // NULL means something only together with a length of 0.
    const bool counted = !param.length.empty() && param.null && param.kind != "dst";
    attempt(param.name + " NULL", arguments, !param.null ? Expect::refusal : Expect::anything);
    if (!counted) return;
    arguments = fixtures_.arguments(function_);
    arguments[index].pointer = nullptr;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (function_.params[i].name == param.length) arguments[i].i64 = 0;
    }
    attempt(param.name + " NULL and empty", arguments, Expect::anything);
  }

  void wrong_handles(size_t index) {
    const Param& param = function_.params[index];
    const bool error = param.handle == "error";
    const Expect expect = error ? Expect::anything : Expect::refusal;
    auto arguments = fixtures_.arguments(function_);
    arguments[index].pointer = fixtures_.object(param.handle == "buffer" ? "task" : "buffer");
    attempt(param.name + " is another kind of handle", arguments, expect);
    if (!param.options.empty()) {
      arguments = fixtures_.arguments(function_);
      arguments[index].pointer =
          fixtures_.object("options", param.options == "plan" ? "save" : "plan");
      attempt(param.name + " are options of another kind", arguments, Expect::refusal);
    }
    // dllm_task_cancel is signal-safe, so it cannot ask the table of living handles.
    if (!settings_.stamps || param.handle == "event" || function_.name == "dllm_task_cancel")
      return;
    arguments = fixtures_.arguments(function_);
    arguments[index].pointer = fixtures_.released(param.handle);
    attempt(param.name + " was released", arguments, expect);
  }

  void other_pointer(size_t index) {
    auto arguments = fixtures_.arguments(function_);
    arguments[index].pointer = fixtures_.object("buffer");
    attempt(function_.params[index].name + " is another kind of handle", arguments,
            Expect::refusal);
  }

  void garbage_text(size_t index) {
    const Param& param = function_.params[index];
    static const std::string texts[] = {
        "",     "\xff\xfe\x01 \xc3", std::string(100000, 'a'), "../../dllm-sweep-has-no-such-file",
        "%s%n", "\xed\xa0\x80"};
    for (const std::string& text : texts) {
      auto arguments = fixtures_.arguments(function_);
      arguments[index].pointer = const_cast<char*>(text.c_str());
      attempt(param.name + " is garbage of " + std::to_string(text.size()), arguments,
              param.name == "key" ? Expect::failure : Expect::anything);
    }
  }

  void garbage_bytes(size_t index) {
    const Param& param = function_.params[index];
    std::vector<std::string> contents = {"",
                                         "{",
                                         "[1,",
                                         "\"",
                                         "\xff\xff",
                                         "{\"a\":1e999}",
                                         std::string(100000, '['),
                                         "{}x",
                                         std::string(64, '\0')};
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      std::string noise;
      for (uint64_t i = 0, x = seed; i < 300; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        noise.push_back(static_cast<char>(x >> 56));
      }
      contents.push_back(noise);
    }
    for (const std::string& content : contents) {
      auto arguments = fixtures_.arguments(function_);
      // A copy of the exact size, so that reading past the end is seen by the sanitizer.
      const auto copy = std::make_unique<char[]>(content.size());
      std::memcpy(copy.get(), content.data(), content.size());
      arguments[index].pointer = copy.get();
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (function_.params[i].name == param.length) {
          arguments[i].i64 = static_cast<int64_t>(content.size());
        }
      }
      attempt(param.name + " is garbage of " + std::to_string(content.size()), arguments,
              Expect::anything);
    }
  }

  void garbage_array(size_t index) {
    const Param& param = function_.params[index];
    int32_t ids[4] = {-1, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(),
                      100000};
    uint8_t bytes[4] = {255, 2, 128, 7};
    double reals[4] = {NAN, INFINITY, -1e300, 0};
    int64_t dims[4] = {kMax / 2, 4, kMax, 3};
    auto arguments = fixtures_.arguments(function_);
    if (param.elem == "i32") arguments[index].pointer = ids;
    if (param.elem == "u8") arguments[index].pointer = bytes;
    if (param.elem == "f64") arguments[index].pointer = reals;
    if (param.elem == "i64") {
      arguments[index].pointer = dims;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (function_.params[i].name == param.length) arguments[i].i64 = 2;
      }
    }
    // dalpha and weight may be any finite number, fixed flags any byte.
    attempt(param.name + " holds garbage", arguments,
            param.elem == "u8" || param.elem == "i32" ? Expect::anything : Expect::failure);
    if (param.elem == "i64") {
      dims[0] = -1;
      attempt(param.name + " holds -1", arguments, Expect::refusal);
    }
  }

  void bad_count(size_t index) {
    const Param& param = function_.params[index];
    const auto with = [&](int64_t number, Expect expect) {
      auto arguments = fixtures_.arguments(function_);
      arguments[index].i64 = number;
      attempt(param.name + " " + std::to_string(number), arguments, expect);
    };
    const bool length = param.kind == "length";
    const bool bounded = length || param.min.has_value();
    with(-1, bounded ? Expect::refusal : Expect::anything);
    with(kMin, bounded ? Expect::refusal : Expect::anything);
    if (param.min.value_or(0) > 0) with(*param.min - 1, Expect::refusal);
    if (param.max.has_value()) with(*param.max + 1, Expect::refusal);
    // A count that no memory holds; where nothing is counted, a large number may be fine.
    if (length && !param.of.empty()) {
      with(kMax, Expect::anything);
    } else if (param.name == "slot" || param.name == "index" || param.name == "axis") {
      with(kMax, Expect::failure);
    }
  }

  void bad_choice(size_t index) {
    const Param& param = function_.params[index];
    if (param.values.empty()) return;
    for (int64_t number : {int64_t{-1}, param.values.back() + 1, int64_t{1} << 30}) {
      auto arguments = fixtures_.arguments(function_);
      arguments[index].i64 = number;
      attempt(param.name + " " + std::to_string(number), arguments, Expect::refusal);
    }
  }

  void bad_real(size_t index) {
    for (double number : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      auto arguments = fixtures_.arguments(function_);
      arguments[index].f64 = number;
      attempt(function_.params[index].name + " " + std::to_string(number), arguments,
              Expect::failure);
    }
  }

  // One call, and what the answer must look like.
  void attempt(const std::string& name, std::vector<Value> arguments, Expect expect) {
    std::snprintf(progress_, progress_size_, "%s", name.c_str());
    ++report_.cases;
    const Value result = call_(arguments);
    if (function_.can_fail()) {
      judge(name, static_cast<int32_t>(result.i64), arguments, expect);
    } else if (expect != Expect::anything) {
      judge_value(name, result);
    }
    if (!function_.takes.empty()) fixtures_.taken(noun());
  }

  std::string noun() const { return function_.params.front().handle; }

  void judge(const std::string& name, int32_t status, const std::vector<Value>& arguments,
             Expect expect) {
    const bool without_lua = !settings_.lua && status == DLLM_UNIMPLEMENTED;
    if (expect == Expect::failure && status == DLLM_OK) fail(name, "is accepted");
    if (expect == Expect::refusal && status != DLLM_INVALID_ARGUMENT && !without_lua) {
      fail(name, "gives status " + std::to_string(status) + " instead of 3");
    }
    if (status == DLLM_OK) return;
    if (status == DLLM_INTERNAL || status == DLLM_UNKNOWN) {
      fail(name, "gives status " + std::to_string(status) + ": " + message());
    }
    check_message(name, status, arguments);
    check_outs(name, status, arguments);
  }

  // Promise 2: one line, no full stop, no place in our sources.
  void check_message(const std::string& name, int32_t status, const std::vector<Value>& arguments) {
    if (arguments.empty() || arguments.back().pointer != fixtures_.object("error")) return;
    const auto code = reinterpret_cast<int32_t (*)(void*)>(fixtures_.symbol("dllm_error_code"));
    if (code(fixtures_.object("error")) != status) fail(name, "err holds another status");
    const std::string text = message();
    if (text.empty()) fail(name, "gives no message");
    const bool bad =
        text.find('\n') != std::string::npos || (!text.empty() && text.back() == '.') ||
        text.find("failed to") != std::string::npos || text.find(".cpp") != std::string::npos;
    if (bad) fail(name, "gives a message against the style: " + text);
  }

  // Promise 7: outs are written on success, except the count of an array that is too small.
  void check_outs(const std::string& name, int32_t status, const std::vector<Value>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Param& param = function_.params[i];
      const bool out = param.kind == "out_handle" || param.kind == "out_number";
      if (!out || arguments[i].pointer == nullptr) continue;
      if (param.name == "out_count" && status == DLLM_OUT_OF_RANGE) continue;
      if (fixtures_.cell(i) != Fixtures::kUntouched) fail(name, param.name + " is written");
    }
  }

  // Without a status a mistake answers 0; texts may be NULL or "" as their block says.
  void judge_value(const std::string& name, Value result) {
    const bool borrowed = function_.result == "str" || function_.result == "bytes";
    if (function_.result == "void" || borrowed || function_.result == "handle") return;
    if (name.rfind("all NULL", 0) == 0 && function_.params.empty()) return;
    if (result.i64 != 0) fail(name, "answers " + std::to_string(result.i64) + " instead of 0");
  }

  std::string message() {
    const auto text =
        reinterpret_cast<const char* (*)(void*)>(fixtures_.symbol("dllm_error_message"));
    return text(fixtures_.object("error"));
  }

  void fail(const std::string& name, const std::string& why) {
    report_.failures.push_back((name + ": " + why).substr(0, 300));
  }

  const Function& function_;
  Fixtures& fixtures_;
  const Settings& settings_;
  char* progress_;
  size_t progress_size_;
  Call call_;
  Report report_;
};

} // namespace

Report run_cases(const Function& function, Fixtures& fixtures, const Settings& settings,
                 char* progress, size_t progress_size) {
  return Sweep(function, fixtures, settings, progress, progress_size).run();
}

} // namespace sweep

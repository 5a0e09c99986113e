#pragma once
// The result of a compiler for a model's program, as text: {"target", "state", "plan" or "message",
// ...} from compile.cpp.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::cli {

std::string bytes_text(double bytes); // "1.53 GiB" "12.0 MiB" "512 B"

// How often each collective stands in an optimized program, async pairs counted once:
// {"all-reduce": 3}.
std::map<std::string, int64_t> count_collectives(const std::string& optimized);

// Bytes a program needs and its device has; 0: not reported. They come from the compiler's statistics,
// of a program that is too big from its message ("does not fit: needs 68719476736 bytes, has
// 16911433728 bytes: ...").
struct Room {
  double needs = 0, has = 0;
};
Room room_of(const nlohmann::ordered_json& compiled);

// One target on its own: everything, a line each.
void print_result(const nlohmann::ordered_json& result);
// Several: a table, a row each.
void print_table_head();
void print_table_row(const nlohmann::ordered_json& result);

} // namespace dllm::cli

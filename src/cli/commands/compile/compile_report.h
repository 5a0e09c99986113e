#pragma once
// These functions print the result of a compiler for a model's program. compile.cpp makes results:
// {"target", "state", "plan" or "message", ...}.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dllm::cli {

std::string bytes_text(double bytes); // "1.53 GiB" "12.0 MiB" "512 B"

// Counts each collective in an optimized program, an async pair as one: {"all-reduce": 3}.
std::map<std::string, int64_t> count_collectives(const std::string& optimized);

// Bytes that a program needs, and bytes that its device has; 0: not reported.
struct Room {
  double needs = 0, has = 0;
};
// Reads the bytes from the compiler's statistics. For a program that is too big it reads them from
// the compiler's message ("does not fit: needs 68719476736 bytes, has 16911433728 bytes: ...").
Room room_of(const nlohmann::ordered_json& compiled);

// Prints all facts about one target, one line each.
void print_result(const nlohmann::ordered_json& result);
// These functions print several targets as a table with one row each.
void print_table_head();
void print_table_row(const nlohmann::ordered_json& result);

} // namespace dllm::cli

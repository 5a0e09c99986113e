#include "generate/constraints/json_formats.h"

#include <algorithm>
#include <vector>

namespace dllm::generate {
namespace {

struct JsonFormat {
  std::string name, pattern;
};

// Days by the length of the month. The years with February 29 are those that 4 divides, without the
// full hundreds that 400 does not divide.
std::string date_pattern() {
  return "(?:[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
         "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|"
         "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)";
}

std::string time_pattern() {
  const std::string hour = "(?:[01][0-9]|2[0-3])", minute = "[0-5][0-9]";
  return hour + ":" + minute + ":" + minute + "(?:\\.[0-9]{1,6})?(?:Z|[+-]" + hour + ":" + minute +
         ")";
}

// An address with a plain name and a plain host.
std::string email_pattern() {
  const std::string name = "[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?";
  return "[a-z0-9]+(?:[._+-][a-z0-9]+)*@" + name + "(?:\\." + name + ")*\\.[a-z]{2,12}";
}

std::string ipv4_pattern() {
  const std::string part = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return "(?:" + part + "\\.){3}" + part;
}

// Dates and times are those of RFC 3339.
const std::vector<JsonFormat>& formats() {
  static const std::vector<JsonFormat> all = {
      {"date", date_pattern()},
      {"time", time_pattern()},
      {"date-time", date_pattern() + "T" + time_pattern()},
      {"email", email_pattern()},
      {"ipv4", ipv4_pattern()},
      {"uuid", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"},
  };
  return all;
}

} // namespace

std::string pattern_of_format(std::string_view format) {
  const auto found = std::ranges::find(formats(), format, &JsonFormat::name);
  return found == formats().end() ? "" : found->pattern;
}

std::string format_names() {
  std::string names;
  for (size_t i = 0; i < formats().size(); ++i)
    names += (i == 0 ? "" : i + 1 == formats().size() ? " or " : ", ") + formats()[i].name;
  return names;
}

} // namespace dllm::generate

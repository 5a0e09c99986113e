#include "base/error.h"

#include "unit/test_files.h"

namespace dllm {
namespace {

TEST(Error, CarriesCodeTextAndHint) {
  const Error e =
      test::error_of([] { fail_with_hint("try 8", Code::out_of_range, "block {} is odd", 7); });
  EXPECT_EQ(e.code(), Code::out_of_range);
  EXPECT_EQ(e.text(), "block 7 is odd");
  EXPECT_EQ(e.hint(), "try 8");
  EXPECT_STREQ(e.what(), "block 7 is odd");
}

TEST(Error, EveryCodeHasItsName) {
  EXPECT_STREQ(code_name(Code::not_found), "not_found");
  EXPECT_STREQ(code_name(Code::script_failed), "script_failed");
  EXPECT_STREQ(code_name(static_cast<Code>(77)), "unknown");
  for (int32_t number = 0; number <= 16; ++number) {
    if (number == static_cast<int32_t>(Code::unknown)) continue;
    EXPECT_STRNE(code_name(static_cast<Code>(number)), "unknown") << number;
  }
}

} // namespace
} // namespace dllm

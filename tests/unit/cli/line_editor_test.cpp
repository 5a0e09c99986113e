#include "cli/pictures/pictures.h"

#include <gtest/gtest.h>

namespace dllm::cli {
namespace {

TEST(LineEditor, CommonBegin) {
  EXPECT_EQ(common_begin({"decoder(", "decode(", "decoders"}), "decode");
  EXPECT_EQ(common_begin({"one"}), "one");
  EXPECT_EQ(common_begin({"a", "b"}), "");
  EXPECT_EQ(common_begin({}), "");
}

TEST(LineEditor, CommonBeginEndsBetweenCharacters) {
  EXPECT_EQ(common_begin({"x\u00e9", "x\u00e8"}), "x");
}

TEST(LineEditor, ColumnsFitTheWidth) {
  EXPECT_EQ(in_columns({"aa", "b", "cc"}, 8), "aa  b\ncc\n");
  EXPECT_EQ(in_columns({"longer than that"}, 4), "longer than that\n");
  EXPECT_EQ(in_columns({}, 4), "");
}

} // namespace
} // namespace dllm::cli

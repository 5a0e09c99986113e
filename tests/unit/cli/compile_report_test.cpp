#include "cli/commands/compile/compile_report.h"

#include <gtest/gtest.h>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

TEST(CompileReport, CountsCollectivesOnce) {
  const auto counts =
      count_collectives("ENTRY %main {\n"
                        "  %all-gather.5 = f32[512,128]{1,0} all-gather(%a), dimensions={0}\n"
                        "  %s = (f32[8], f32[8]) all-reduce-start(%all-gather.5), calls=%add\n"
                        "  %d = f32[8] all-reduce-done(%s)\n"
                        "  ROOT %x = f32[8] all-reduce(%d)\n"
                        "  %f = f32[8] fusion(%d), calls=%all-to-all.clone\n}\n");
  EXPECT_EQ(counts, (std::map<std::string, int64_t>{{"all-gather", 1}, {"all-reduce", 2}}));
  EXPECT_TRUE(count_collectives("").empty());
}

TEST(CompileReport, RoomIsThePeakOrTheSumOfTheParts) {
  const Room peak = room_of(Json{{"peak", 10}, {"device", 16}, {"argument", 3}});
  EXPECT_EQ(peak.needs, 10);
  EXPECT_EQ(peak.has, 16);
  const Room sum =
      room_of(Json{{"peak", 0}, {"argument", 7}, {"output", 5}, {"alias", 4}, {"temporary", 2}});
  EXPECT_EQ(sum.needs, 10);
  EXPECT_EQ(sum.has, 0);
}

TEST(CompileReport, APeakWithoutTheTemporariesIsNotTheNeed) {
  const Room room =
      room_of(Json{{"peak", 23}, {"argument", 20}, {"output", 3}, {"alias", 0}, {"temporary", 12}});
  EXPECT_EQ(room.needs, 35);
}

TEST(CompileReport, TheMessageReportsAProgramThatIsTooBig) {
  const Room room = room_of(
      Json{{"peak", 0}, {"message", "does not fit: needs 300 bytes, has 200 bytes: E1000"}});
  EXPECT_EQ(room.needs, 300);
  EXPECT_EQ(room.has, 200);
  EXPECT_EQ(room_of(Json{{"message", "out of memory"}}).needs, 0);
}

TEST(CompileReport, Bytes) {
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(3 << 20), "3.0 MiB");
  EXPECT_EQ(bytes_text(1.5 * (1 << 30)), "1.50 GiB");
}

} // namespace
} // namespace dllm::cli

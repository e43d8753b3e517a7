#include "apps/progress.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace thinwire::app {
namespace {

class ProgressTest : public testing::Test {
 protected:
  Progress make(std::uint64_t total, bool tty, int width = 80) {
    return Progress(out_, total, {.tty = tty, .width = width, .now_s = [this] { return now_; }});
  }

  std::vector<std::string> pieces(char mark) const {
    std::vector<std::string> all;
    std::istringstream in(out_.str());
    for (std::string piece; std::getline(in, piece, mark);) all.push_back(piece);
    return all;
  }

  double now_ = 1000.0;
  std::ostringstream out_;
};

TEST_F(ProgressTest, SaysPercentElapsedAndTimeLeft) {
  Progress progress = make(400, false);
  now_ += 60;
  progress.update(100, "distro seed 1  loss 2.31");
  EXPECT_EQ(out_.str(), " 25%  1:00 elapsed  3:00 left  distro seed 1  loss 2.31\n");
}

TEST_F(ProgressTest, WritesPlainLinesFirstLastAndEveryTenSeconds) {
  Progress progress = make(100, false);
  for (int done = 1; done <= 100; ++done) {
    progress.update(static_cast<std::uint64_t>(done), "");
    now_ += 0.25;
  }
  progress.finish();
  std::vector<std::string> lines = pieces('\n');
  ASSERT_EQ(lines.size(), 4u);  // at 0, 10 and 20 seconds, and the end
  EXPECT_EQ(lines[0].substr(0, 4), "  1%");
  EXPECT_EQ(lines[1].substr(0, 4), " 41%");
  EXPECT_EQ(lines[2].substr(0, 4), " 81%");
  EXPECT_EQ(lines[3], "100%  0:25 elapsed");
  EXPECT_EQ(out_.str().find('\r'), std::string::npos);
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
}

TEST_F(ProgressTest, ShowsTheLastStateOfAnInterruptedRun) {
  Progress progress = make(100, false);
  progress.update(1, "");
  progress.update(7, "");
  progress.finish();
  EXPECT_EQ(pieces('\n').back().substr(0, 4), "  7%");
}

TEST_F(ProgressTest, RedrawsOneLineThatFitsAnyTerminal) {
  for (int width : {2, 10, 40, 80, 200}) {
    out_.str("");
    Progress progress = make(1000, true, width);
    for (std::uint64_t done = 0; done <= 1000; done += 10) {
      now_ += 1;
      progress.update(done, "distro seed 1  loss 2.31");
    }
    EXPECT_EQ(out_.str().find('\n'), std::string::npos);
    std::vector<std::string> drawn = pieces('\r');
    ASSERT_EQ(drawn.size(), 102u);  // an empty piece before the first return
    for (const std::string& text : drawn) EXPECT_LT(text.size(), width + 3u) << text;  // ESC [ K
    progress.finish();
    EXPECT_EQ(out_.str().back(), '\n');
  }
}

TEST_F(ProgressTest, DrawsABarWhereThereIsRoom) {
  Progress progress = make(10, true);
  progress.update(5, "x");
  EXPECT_NE(out_.str().find("[###############---------------]  50%"), std::string::npos)
      << out_.str();
  out_.str("");
  Progress narrow = make(10, true, 30);
  narrow.update(5, "distro seed 1");
  EXPECT_EQ(out_.str().find('#'), std::string::npos);
}

TEST_F(ProgressTest, IsNotRedrawnMoreOftenThanTenTimesASecond) {
  Progress progress = make(1000, true);
  for (std::uint64_t done = 1; done < 1000; ++done) {
    now_ += 0.001;
    progress.update(done, "");
  }
  EXPECT_LE(pieces('\r').size(), 12u);
}

TEST_F(ProgressTest, ClearsItsLineForOthers) {
  Progress progress = make(10, true);
  progress.update(1, "");
  out_.str("");
  progress.clear();
  EXPECT_EQ(out_.str(), "\r\x1b[K");
}

TEST_F(ProgressTest, IsDoneWhenThereIsNothingToDo) {
  Progress progress = make(0, false);
  progress.update(0, "");
  EXPECT_EQ(out_.str(), "100%  0:00 elapsed\n");
}

}  // namespace
}  // namespace thinwire::app

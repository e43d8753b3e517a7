#include "models/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace thinwire {
namespace {

TEST(Team, DoesEveryTaskOnce) {
  for (std::size_t members : {1u, 2u, 3u}) {
    Team team(members);
    for (std::size_t count : {0u, 1u, 2u, 7u}) {
      std::vector<std::atomic<int>> done(count);
      team.run(count, [&](std::size_t index) { ++done[index]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Team, ThrowsWhatATaskOfAnyMemberThrowsAndGoesOn) {
  for (std::size_t members : {1u, 3u}) {
    Team team(members);
    for (std::size_t bad : {0u, 1u, 2u}) {
      EXPECT_THROW(team.run(3,
                            [&](std::size_t index) {
                              if (index == bad) throw std::runtime_error("no memory, say");
                            }),
                   std::runtime_error);
    }
    std::atomic<int> done = 0;
    team.run(3, [&](std::size_t) { ++done; });
    EXPECT_EQ(done, 3);
  }
}

}  // namespace
}  // namespace thinwire

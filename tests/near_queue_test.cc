#include "src/core/near_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "thinwire/error.h"

namespace thinwire::test {
namespace {

TEST(NearQueue, ExecutesInOrderOnAThreadOfItsOwn) {
  NearQueue queue(true);
  std::vector<int> seen;
  std::thread::id where;
  NearQueue::Ticket last = 0;
  for (int i = 0; i < 100; ++i) {
    last = queue.push([&, i] {
      seen.push_back(i);
      where = std::this_thread::get_id();
    });
  }
  queue.wait(last);
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(NearQueue, WithoutAThreadItExecutesAtOnce) {
  NearQueue queue(false);
  int done = 0;
  EXPECT_EQ(queue.push([&] { ++done; }), 0u);
  EXPECT_EQ(done, 1);
  EXPECT_THROW(queue.push([] { throw Error("broken"); }), Error);
  queue.wait_for_all();
}

TEST(NearQueue, NothingIsExecutedAfterAFailureAndEveryWaitSaysIt) {
  NearQueue queue(true);
  std::atomic<bool> executed{false};
  const NearQueue::Ticket good = queue.push([] {});
  queue.wait(good);
  queue.push([] { throw Error("the cable is cut"); });
  queue.push([&] { executed = true; });
  for (int i = 0; i < 2; ++i) {
    try {
      queue.wait_for_all();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the cable is cut");
    }
  }
  EXPECT_FALSE(executed);
}

TEST(NearQueue, ItsEndDropsWhatHasNotBegun) {
  std::atomic<int> executed{0};
  std::atomic<bool> begun{false};
  {
    NearQueue queue(true);
    queue.push([&] {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ++executed;
    });
    queue.push([&] { ++executed; });
    while (!begun) std::this_thread::yield();
  }
  EXPECT_EQ(executed, 1);
}

}  // namespace
}  // namespace thinwire::test

// The found packages link and answer, also those that only one room uses.
#include <gloo/rendezvous/hash_store.h>
#include <gtest/gtest.h>

#include <vector>
#include <zmq.hpp>

namespace {

TEST(Dependencies, LibzmqIsRecentAndHasCurve) {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  EXPECT_GE(major * 100 + minor, 403);
  EXPECT_EQ(zmq_has("curve"), 1) << "links between sites need encryption";
}

TEST(Dependencies, CppzmqSendsWithinOneProcess) {
  zmq::context_t context;
  zmq::socket_t left(context, zmq::socket_type::pair);
  zmq::socket_t right(context, zmq::socket_type::pair);
  left.bind("inproc://dependencies");
  right.connect("inproc://dependencies");
  left.send(zmq::str_buffer("over the wire"), zmq::send_flags::none);
  zmq::message_t heard;
  right.set(zmq::sockopt::rcvtimeo, 5000);
  ASSERT_TRUE(right.recv(heard));
  EXPECT_EQ(heard.to_string_view(), "over the wire");
}

TEST(Dependencies, GlooStoreGivesBackWhatWasSet) {
  gloo::rendezvous::HashStore store;
  const std::vector<char> value = {'t', 'w'};
  store.set("rank 0", value);
  EXPECT_EQ(store.get("rank 0"), value);
}

}  // namespace

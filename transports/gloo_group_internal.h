// One group of ranks that do arithmetic together, over a mesh. Internal to transports/gloo*.
//
// The agreement: before each operation every member sends every other one a Header, which says what
// it is about to do and with how much. Receives for headers and farewells are posted ahead of their
// time, so that Gloo's thread takes them in while this rank computes.
//
// The data: each part goes straight from its owner to whoever needs it, in pieces, and a piece is
// summed when it has come from all. As many bytes as a ring, and sums in member order. An empty
// message ends each stream: Gloo tells a waiting receiver that its peer is gone only where another
// receive is still pending.
//
// The farewell: who fails tells the others why before its connections close.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "thinwire/collective.h"
#include "transports/gloo_mesh_internal.h"
#include "transports/gloo_watch_internal.h"

namespace thinwire::near {

enum class Operation : std::uint32_t {
  none,
  reduce_scatter_mean,
  all_gather,
  all_reduce_mean,
  broadcast,
  barrier,
  all_to_all
};

struct Header {
  std::array<char, 4> magic = {'T', 'W', 'H', '1'};
  Operation operation = Operation::none;
  std::uint64_t sequence = 0;
  std::uint64_t length = 0;  // floats
  std::uint64_t detail = 0;  // hash of the cuts, or the root
};

struct Farewell {
  std::array<char, 4> magic = {};  // zero until it has come
  std::array<char, 508> why = {};  // ends with a zero
};

static_assert(std::is_trivially_copyable_v<Header> && std::is_trivially_copyable_v<Farewell>);

class Group final : public Collective {
 public:
  struct Options {
    std::string name = {};
    std::vector<int> members = {};  // ranks of the world, ascending
    int member = 0;                 // this one's place among them
    std::chrono::milliseconds deadline{};
  };
  // The mesh may be none where this rank is alone.
  Group(Options options, std::unique_ptr<Mesh> mesh);
  ~Group() override;

  int rank() const override { return options_.member; }
  int size() const override { return static_cast<int>(options_.members.size()); }
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override;
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override;
  void all_reduce_mean(Floats whole) override;
  void broadcast(Floats data, int root) override;
  void barrier() override;
  void all_to_all(ConstFloats whole, Floats parts, Cuts cuts) override;
  Traffic traffic() const override { return traffic_; }

 private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
  using Clock = Watch::Clock;
  struct Peer {
    int member = 0;
    Header header_in;
    Farewell farewell_in;
    Buffer header_in_buffer = {};
    Buffer header_out_buffer = {};
    Buffer farewell_in_buffer = {};
    Buffer farewell_out_buffer = {};
    bool left = false;  // its farewell has come
  };
  // Pieces of one peer's part, on their way in or out.
  struct Stream {
    Peer* peer = nullptr;
    Buffer buffer = {};
    std::size_t waits = 0;
  };

  // The agreement; throws where members differ.
  void begin(Operation operation, std::size_t length, std::uint64_t detail);
  void expect_header(Peer& peer);
  void hear_headers();
  void compare_headers();
  void scatter(ConstFloats whole, Floats mine, Cuts cuts);
  void sum_pieces(ConstFloats whole, Floats mine, std::vector<Stream>& in);
  void gather(ConstFloats mine, Floats whole, Cuts cuts);

  Stream outgoing(Peer& peer, ConstFloats data);
  Stream incoming(Peer& peer, Floats data);
  void post_send(Peer& peer, gloo::transport::UnboundBuffer& buffer, std::uint64_t slot,
                 std::size_t offset, std::size_t bytes);
  void post_receive(Peer& peer, gloo::transport::UnboundBuffer& buffer, std::uint64_t slot,
                    std::size_t offset, std::size_t bytes);
  void receive_all(std::vector<Stream>& streams);
  void send_all(std::vector<Stream>& streams);

  Clock::time_point deadline() const { return Clock::now() + options_.deadline; }
  std::string name_of(int member) const;
  std::string operation_text() const;
  // Waits in steps, so that whoever has left is noticed while another one is waited for; throws
  // where the wait ends badly.
  void await(Peer& peer, gloo::transport::UnboundBuffer& buffer, bool sends);
  Heard wait_for(Peer& peer, gloo::transport::UnboundBuffer& buffer, bool sends,
                 Clock::time_point end);
  Heard look(Peer& peer);  // has it left (yes), or is its connection closed?
  void hear_farewells();   // throws with the words of one who has left
  [[noreturn]] void miss(const std::vector<Peer*>& late);
  [[noreturn]] void lose(Peer& peer);
  [[noreturn]] void fail(const std::string& what, const std::vector<Peer*>& late = {});
  void say_farewell(const std::vector<Peer*>& late);
  void drop();

  const Options options_;
  std::unique_ptr<Watch> watch_;
  std::shared_ptr<Mesh> mesh_;
  std::vector<std::unique_ptr<Peer>> peers_;  // without this member
  std::vector<float> scratch_;
  Header own_;
  Farewell farewell_;
  std::string failure_;
  Traffic traffic_;
};

}  // namespace thinwire::near

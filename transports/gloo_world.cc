#include <signal.h>

#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <utility>

#include "thinwire/error.h"
#include "transports/gloo.h"
#include "transports/gloo_group_internal.h"
#include "transports/gloo_mesh_internal.h"
#include "transports/gloo_roll_internal.h"
#include "transports/gloo_store_internal.h"

namespace thinwire {
namespace {

using std::chrono::milliseconds;

void check(const GlooOptions& options) {
  if (options.size < 1) throw UsageError("a world has 1 rank or more");
  if (options.rank < 0 || options.rank >= options.size) {
    throw UsageError("rank " + std::to_string(options.rank) + " is none of " +
                     std::to_string(options.size) + " ranks, which count from 0");
  }
  if (options.deadline < milliseconds(1) || options.connect_timeout < milliseconds(1)) {
    throw UsageError("deadlines of the near link must be 1 ms or more");
  }
  if (options.directory.empty() == options.master.empty()) {
    throw UsageError("ranks meet either in a directory or at the address of rank 0");
  }
  const int lowest = options.rank == 0 ? 0 : 1;
  if (!options.master.empty() && (options.master_port < lowest || options.master_port > 65'535)) {
    throw UsageError("the port of rank 0 must be 1 to 65535");
  }
}

// Gloo writes into connections that the other end has closed.
void survive_closed_connections() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string address_for(const GlooOptions& options, const near::KeyStore& store,
                        const near::Roll& roll) {
  if (!options.interface.empty()) return "";
  if (options.directory.empty()) return store.own_address();
  for (const near::Hello& hello : roll.hellos) {
    if (hello.machine == roll.hellos[0].machine) continue;
    throw UsageError("ranks that meet in " + options.directory +
                     " are on several machines; give the network between them, as in eth0");
  }
  return "127.0.0.1";
}

}  // namespace

struct GlooWorld::Body {
  GlooOptions options;
  std::unique_ptr<near::StoreServer> server;  // of rank 0
  std::unique_ptr<near::KeyStore> store;
  std::string prefix;
  std::shared_ptr<gloo::transport::Device> device;
  std::set<std::string> names;  // of groups
};

GlooWorld::GlooWorld(const GlooOptions& options) : body_(std::make_unique<Body>()) {
  check(options);
  body_->options = options;
  if (options.size == 1) return;
  survive_closed_connections();
  const near::Patience patience(options.connect_timeout, options.stop);
  if (!options.directory.empty()) {
    body_->store = near::open_directory(options.directory);
  } else {
    int port = options.master_port;
    if (options.rank == 0) {
      body_->server = std::make_unique<near::StoreServer>(port);
      port = body_->server->port();
    }
    body_->store = near::dial_store(options.master, port, patience);
  }
  const near::Hello mine{.nonce = random_number(),
                         .size = static_cast<std::uint32_t>(options.size),
                         .version = near::version(),
                         .machine = near::this_machine(),
                         .address = options.interface.empty() ? body_->store->own_address() : "",
                         .agreed = options.agreed};
  const near::Roll roll = near::call_roll(*body_->store, options.rank, mine, patience);
  near::check_addresses(roll);
  std::ostringstream prefix;
  prefix << std::hex << roll.id;
  body_->prefix = prefix.str();
  body_->device = near::open_device(options.interface, address_for(options, *body_->store, roll));
}

GlooWorld::~GlooWorld() = default;

int GlooWorld::rank() const { return body_->options.rank; }
int GlooWorld::size() const { return body_->options.size; }

std::unique_ptr<Collective> GlooWorld::group(const std::string& name,
                                             const std::vector<int>& members,
                                             std::optional<milliseconds> deadline) {
  const auto own = std::find(members.begin(), members.end(), rank());
  const bool ascends = std::is_sorted(members.begin(), members.end(), std::less_equal<>());
  if (own == members.end() || !ascends || members.front() < 0 || members.back() >= size()) {
    throw UsageError(
        "the members of a group are ranks of the world, ascending, the own among them");
  }
  const std::string allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  if (name.empty() || name.size() > 64 || name.find_first_not_of(allowed) != name.npos) {
    throw UsageError("the name of a group is of letters, digits, '-' and '_', up to 64 of them");
  }
  if (!body_->names.insert(name).second) {
    throw UsageError("a group was called " + name + " already; take a new name each time");
  }
  const near::Group::Options options{.name = name,
                                     .members = members,
                                     .member = static_cast<int>(own - members.begin()),
                                     .deadline = deadline.value_or(body_->options.deadline)};
  if (members.size() == 1) return std::make_unique<near::Group>(options, nullptr);
  const near::MeshOptions mesh{
      .member = options.member,
      .size = static_cast<int>(members.size()),
      .prefix = body_->prefix + "." + name,
      .name = [&](int member) { return name + ": rank " + std::to_string(members[member]); }};
  const near::Patience patience(body_->options.connect_timeout, body_->options.stop);
  auto group = std::make_unique<near::Group>(
      options, std::make_unique<near::Mesh>(mesh, body_->device, *body_->store, patience));
  group->barrier();  // all are connected, and nobody needs the store any more
  return group;
}

}  // namespace thinwire

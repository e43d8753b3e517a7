// How ranks meet: each leaves a hello, rank 0 calls the roll of those it sees, each of these says
// that it stands in it, and rank 0 lets them go. A roll holds the random numbers of its processes,
// so what earlier runs have left behind fits nowhere. Internal to transports/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/error.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::near {

struct Hello {
  std::uint64_t nonce = 0;  // random, of this process
  std::uint32_t size = 0;   // of the world, as it was told
  std::string version = {};
  std::string machine = {};
  std::string address = {};  // at which the others are to dial it, where that is known yet
  std::string agreed = {};
};

Bytes encode(const Hello& hello);
Result<Hello> decode_hello(ByteView bytes);

// Why these two cannot be in one run; empty when they can. In the words of rank `other`.
std::string misfit(const Hello& mine, int rank, const Hello& hello, int other);

struct Roll {
  std::uint64_t id = 0;  // of this meeting; never the same again
  std::vector<Hello> hellos;
};

// Throws Error naming who did not come or does not fit, UsageError for what was asked wrongly.
Roll call_roll(KeyStore& store, int rank, const Hello& mine, const Patience& patience);

// Throws UsageError where ranks are on several machines and one of them would be dialled at a
// loopback address; as in Debian, where the own host name is 127.0.1.1.
void check_addresses(const Roll& roll);

std::string this_machine();

}  // namespace thinwire::near

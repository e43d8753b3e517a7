// One rank of a near link, to be killed and frozen:
//   gloo_rank DIRECTORY RANK SIZE DEADLINE_MS OPERATION FLOATS
// repeats the operation until it fails. Says "ready" when the first one is done, then "at S" every
// now and then, and at the end "failed at S: TEXT", S in seconds of the monotonic clock. After that
// the even ranks that are left open a new group and say "again MEAN".
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tests/support/child.h"
#include "thinwire/error.h"
#include "transports/gloo.h"

namespace {

using namespace thinwire;

void play(Collective& near, const std::string& operation, std::vector<float>& data) {
  const std::size_t size = data.size();
  std::vector<std::size_t> cuts;
  for (int member = 0; member <= near.size(); ++member) {
    cuts.push_back(size * static_cast<std::size_t>(member) / near.size());
  }
  const Floats whole(data);
  const std::size_t begin = cuts[near.rank()];
  const Floats mine = whole.subspan(begin, cuts[near.rank() + 1] - begin);
  if (operation == "all_reduce_mean") near.all_reduce_mean(whole);
  if (operation == "reduce_scatter_mean") near.reduce_scatter_mean(whole, mine, cuts);
  if (operation == "all_gather") near.all_gather(mine, whole, cuts);
  if (operation == "broadcast") near.broadcast(whole, 0);
  if (operation == "barrier") near.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int rank = std::atoi(argv[2]);
  const int size = std::atoi(argv[3]);
  std::vector<float> data(static_cast<std::size_t>(std::atoll(argv[6])), 1.0f);
  try {
    GlooWorld world({.rank = rank,
                     .size = size,
                     .directory = argv[1],
                     .deadline = std::chrono::milliseconds(std::atoi(argv[4]))});
    std::vector<int> members;
    for (int one = 0; one < size; ++one) members.push_back(one);
    auto near = world.group("near", members);
    try {
      for (int turn = 0;; ++turn) {
        play(*near, argv[5], data);
        if (turn == 0) std::cout << "ready" << std::endl;
      }
    } catch (const Error& error) {
      std::cout << "failed at " << std::to_string(test::monotonic_s()) << ": " << error.what()
                << std::endl;
    }
    if (rank % 2 != 0) return 0;
    std::erase_if(members, [](int one) { return one % 2 != 0; });
    near = world.group("again", members);
    std::vector<float> value{static_cast<float>(rank)};
    near->all_reduce_mean(value);
    std::cout << "again " << value[0] << std::endl;
  } catch (const std::exception& error) {
    std::cout << "gave up: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}

// Ranks of a run as processes, and the smallest run for them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/cli_far_fixture.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::test {

class CliNear : public CliFar {
 protected:
  // One site of so many ranks; later words win.
  static Words one_site(const std::string& method, const Words& more = {}) {
    Words words = train(method, {"--sites", "1"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  static int free_port() { return near::StoreServer(0).port(); }

  static Words master(int port) {
    return {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port)};
  }

  // One rank of `size` by the variables of torchrun.
  Launch rank_of(int rank, int size, int port, const Words& words) const {
    Launch one = launch(words);
    one.environment = master(port);
    one.environment.push_back("RANK=" + std::to_string(rank));
    one.environment.push_back("WORLD_SIZE=" + std::to_string(size));
    return one;
  }

  // `thinwire launch --ranks N -- thinwire WORDS...`
  Outcome run_launched(int ranks, const Words& words) const {
    Words all{"launch", "--ranks", std::to_string(ranks), "--", THINWIRE_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  }
};

}  // namespace thinwire::test

// Ranks over NCCL's stand-in, as threads of one process or as processes of which each is a thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_nccl.h"
#include "tests/support/threads.h"
#include "thinwire/error.h"
#include "transports/loopback.h"
#include "transports/nccl.h"

namespace thinwire::test {

struct NcclSetting {
  NcclSetting() = default;
  explicit NcclSetting(int ranks) : members(ranks) {}
  int members = 2;
  bool processes = false;
  NcclOptions options = {};
  std::chrono::milliseconds control_deadline{400};
  FakeOptions library = {};
};

class NcclRanks {
 public:
  explicit NcclRanks(const NcclSetting& setting)
      : setting_(setting),
        library_(std::make_shared<FakeLibrary>(setting.library)),
        control_({.ranks = setting.members, .deadline = setting.control_deadline}),
        nears_(setting.members) {
    for (int i = 0; i < (setting.processes ? setting.members : 1); ++i) {
      cliques_.push_back(std::make_unique<NcclClique>(setting.processes ? 1 : setting.members,
                                                      library_->process(i)));
    }
  }
  ~NcclRanks() {
    nears_.clear();
    library_->release();
  }

  // What each rank's constructor ended with; "" when it went well.
  std::vector<std::string> connect() {
    return play([&](int rank) {
      nears_[rank] = std::make_unique<NcclNear>(clique(rank), control_.near(0, rank), options());
    });
  }
  // What each rank's part of a play ended with.
  template <class Play>
  std::vector<std::string> play(Play part) {
    std::vector<std::string> said(setting_.members);
    run_threads(setting_.members, [&](int rank) {
      try {
        part(rank);
      } catch (const Error& error) {
        said[rank] = error.what();
      }
    });
    return said;
  }

  NcclClique& clique(int rank) { return *cliques_[setting_.processes ? rank : 0]; }
  NcclNear& near(int rank) { return *nears_[rank]; }
  FakeLibrary& library() { return *library_; }
  const NcclOptions& options() const { return setting_.options; }
  void leave(int rank) { nears_[rank].reset(); }

 private:
  const NcclSetting setting_;
  const std::shared_ptr<FakeLibrary> library_;
  LoopbackWorld control_;
  std::vector<std::unique_ptr<NcclClique>> cliques_;
  std::vector<std::unique_ptr<NcclNear>> nears_;
};

}  // namespace thinwire::test

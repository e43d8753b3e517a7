// A network namespace without a name: it lasts as long as this object or a process in it, so that
// nothing stays behind whatever becomes of a test.
#pragma once

#include <string>

#include "tests/support/threads.h"
#include "transports/descriptor_internal.h"

namespace thinwire::test {

class NetSpace {
 public:
  NetSpace();  // with its loopback interface up; throws Error without the privileges

  int file() const { return file_.number(); }
  std::string path() const;  // for setns in other processes, while this one lives

  // Calls `work` in a thread that is in the namespace; sockets made there stay there.
  template <class Work>
  void run(Work work) const {
    run_threads(1, [&](int) {
      enter(path());
      work();
    });
  }

  // Takes the calling thread into a namespace: a path, or a name of `ip netns`. Throws Error.
  static void enter(const std::string& space);

 private:
  Descriptor file_;
};

}  // namespace thinwire::test

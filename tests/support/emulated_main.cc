// The program on a machine whose devices are emulated; the environment says what machine that is:
//   EMULATED_DEVICES=2  EMULATED_CAPABILITY=75  EMULATED_BYTES=1000000  EMULATED_DRIVER=12000
//   EMULATED_CALLS=500 (then the devices are lost)
#include <cstdlib>

#include "optimizers/catalog.h"
#include "tests/support/fake_cuda/machine.h"
#include "thinwire/program.h"

namespace {

unsigned long long given(const char* name, unsigned long long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  namespace fake = thinwire::fake_cuda;
  fake::Machine machine;
  machine.devices = static_cast<int>(given("EMULATED_DEVICES", 2));
  machine.bytes = given("EMULATED_BYTES", machine.bytes);
  machine.driver = static_cast<int>(given("EMULATED_DRIVER", 13000));
  machine.capability = static_cast<int>(given("EMULATED_CAPABILITY", 90));
  fake::set_machine(machine);
  if (const auto calls = given("EMULATED_CALLS", 0); calls > 0) fake::lose_devices(calls);
  return thinwire::run_program(argc, argv, thinwire::optimizer_catalog());
}

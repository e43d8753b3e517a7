// Results go to standard output, everything else to standard error.
#include "thinwire/program.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <iostream>

#include "apps/cli.h"
#include "apps/compare.h"
#include "apps/hub_command.h"
#include "apps/keygen_command.h"
#include "apps/report.h"
#include "apps/runner.h"
#include "apps/status_command.h"
#include "apps/table.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

std::atomic<bool> stop{false};
std::atomic<int> stop_signal{0};

// The first signal leaves at the next step; the second one at once.
void on_signal(int number) {
  if (stop.exchange(true)) ::_exit(128 + number);
  stop_signal = number;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe and a file that may not grow are errors with a message.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

void check_processor() {
#ifdef THINWIRE_NEEDS_V3
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi2")) {
    throw Error(
        "this build needs an x86-64-v3 processor (AVX2, FMA, BMI2); configure with "
        "-DTHINWIRE_V3=OFF");
  }
#endif
}

void list_optimizers(const OptimizerCatalog& catalog) {
  for (const std::string& name : catalog.names()) {
    Settings settings(name);
    catalog.make(name, settings);
    std::cout << name << "\n  " << catalog.row(name).about << "\n ";
    for (const auto& [key, value] : settings.resolved()) std::cout << " " << key << "=" << value;
    std::cout << "\n";
  }
}

void run(const CommandLine& command, const OptimizerCatalog& catalog) {
  if (command.verb == Verb::done) return;
  if (command.verb == Verb::optimizers) return list_optimizers(catalog);
  if (command.verb == Verb::hub) return run_hub(command.hub, stop);
  if (command.verb == Verb::keygen) return run_keygen(command.keygen_file);
  if (command.verb == Verb::status) return run_status(command.status);
  const RunOptions options = resolve(command.config, catalog);
  if (command.verb == Verb::train && options.methods.size() != 1) {
    throw UsageError("train takes one method; use compare for several");
  }
  if (command.print_config) {
    std::cout << options.config;
    return;
  }
  const CompareResult result = compare(options, catalog, command.text, stop, command.site);
  write_report(result, options.out);
  std::cout << (command.json ? summary_json(result) : table(result)) << std::flush;
  std::cerr << "report: " << (options.out / "report.html").string() << "\n";
}

}  // namespace
}  // namespace thinwire::app

int thinwire::run_program(int argc, char** argv, const OptimizerCatalog& catalog) {
  using namespace app;
  try {
    check_processor();
    catch_signals();
    run(parse_command_line(argc, argv), catalog);
    if (!std::cout.flush()) throw Error("cannot write the result to standard output");
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return 2;
  } catch (const Interrupted& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return 128 + stop_signal;
  } catch (const HubLost& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return 4;
  } catch (const std::exception& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return 1;
  }
}

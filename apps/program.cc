// Results go to standard output, everything else to standard error.
#include "thinwire/program.h"

#include <malloc.h>
#include <signal.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>

#include "apps/cli.h"
#include "apps/compare.h"
#include "apps/hub_command.h"
#include "apps/inspect_command.h"
#include "apps/keygen_command.h"
#include "apps/near_process.h"
#include "apps/optimizers_command.h"
#include "apps/report.h"
#include "apps/runner.h"
#include "apps/status_command.h"
#include "apps/stop.h"
#include "apps/table.h"
#include "apps/timeouts_command.h"
#include "thinwire/error.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

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

void run(CommandLine command, const OptimizerCatalog& catalog) {
  if (command.verb == Verb::done) return;
  if (command.log_json) set_log_form(LogForm::json);
  if (command.verb == Verb::optimizers) return list_optimizers(catalog);
  if (command.verb == Verb::hub) return run_hub(command.hub, stop_flag());
  if (command.verb == Verb::keygen) return run_keygen(command.keygen_file);
  if (command.verb == Verb::status) return run_status(command.status);
  if (command.verb == Verb::inspect) return run_inspect(command.inspect);
  if (command.verb == Verb::plan) {
    return run_plan(command.plan, catalog, command.text, stop_flag());
  }
  if (command.verb == Verb::plan_cell) return run_cell(command.cell, catalog, stop_flag());
  if (command.verb == Verb::exporting) return run_export(command.exported);
  if (command.verb == Verb::train && command.site.print_timeouts) {
    check_timeouts(command.site);
    const std::vector<Timeout> timeouts = timeouts_of(command.site);
    std::cout << (command.json ? timeouts_json(timeouts) : timeouts_table(timeouts));
    return;
  }
  if (command.verb == Verb::train) {
    command.site.place = rank_place(command.site.near, ::getenv);
    if (command.site.place) {
      command.site.place->at_hub = !command.site.site.empty();
      fit_to_place(command.config, command.site.near, *command.site.place);
    }
  }
  const RunOptions options = resolve(command.config, catalog);
  if (command.verb == Verb::train && options.methods.size() != 1) {
    throw UsageError("train takes one method; use compare for several");
  }
  if (command.print_config) {
    std::cout << options.config;
    return;
  }
  const CompareResult result =
      compare(options, catalog, command.text, stop_flag(), {command.site, command.save});
  if (command.site.place && command.site.place->rank != 0) return;  // rank 0 reports
  write_report(result, options.out);
  std::cout << (command.json ? summary_json(result) : table(result)) << std::flush;
  std::cerr << "report: " << (options.out / "report.html").string() << "\n";
  if (!result.unsaved.empty()) throw Error(result.unsaved);
}

// Messages come and go: their memory is not given back to the system each time, fresh pages cost
// more than a copy.
void keep_memory() {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

// For whom no signal came, another rank had one: nothing else interrupts.
int stop_code() {
  if (stop_signal() != 0) return 128 + stop_signal();
  return 128 + (heard_signal() != 0 ? heard_signal() : SIGTERM);
}

// Whoever waits when the signal comes is woken by an error that says no more than that.
int stopped() {
  std::cerr << "thinwire: stopped; nothing was written\n";
  return stop_code();
}

}  // namespace
}  // namespace thinwire::app

int thinwire::run_program(int argc, char** argv, const OptimizerCatalog& catalog) {
  using namespace app;
  keep_memory();
  try {
    check_processor();
    catch_signals();
    CommandLine command = parse_command_line(argc, argv);
    if (command.verb == Verb::launch) return launch(command.launch);
    run(std::move(command), catalog);
    if (!std::cout.flush()) throw Error("cannot write the result to standard output");
    return 0;
  } catch (const UsageError& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return 2;
  } catch (const Interrupted& error) {
    std::cerr << "thinwire: " << error.what() << "\n";
    return stop_code();
  } catch (const HubLost& error) {
    if (stop_signal() != 0) return stopped();
    std::cerr << "thinwire: " << error.what() << "\n";
    return 4;
  } catch (const std::exception& error) {
    if (stop_signal() != 0) return stopped();
    std::cerr << "thinwire: " << error.what() << "\n";
    return 1;
  }
}

// The whole `thinwire` program as a function, so that an optimizer from outside the tree gets the
// trainer, the comparison with AdamW and the report without an edit anywhere: add a row, call this.
//
//   int main(int argc, char** argv) {
//     thinwire::OptimizerCatalog catalog = thinwire::optimizer_catalog();
//     catalog.add("mine", "what it does", [](thinwire::Settings& settings) { return ...; });
//     return thinwire::run_program(argc, argv, catalog);
//   }
// Link with thinwire::program.
#pragma once

#include "thinwire/catalog.h"
#include "thinwire/optimizer.h"

namespace thinwire {

// Returns the exit code: 0 done, 1 the run failed, 2 it was asked for wrongly, 4 no hub answers,
// 128 + n after signal n. Prints what went wrong in one line on standard error and never throws.
// Takes over SIGINT, SIGTERM, SIGPIPE and SIGXFSZ of the process; call it once, from main().
int run_program(int argc, char** argv, const Catalog<Optimizer>& catalog);

}  // namespace thinwire

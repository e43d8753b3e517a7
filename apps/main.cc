// The program with the optimizers of the tree.
#include "optimizers/catalog.h"
#include "thinwire/program.h"

int main(int argc, char** argv) {
  return thinwire::run_program(argc, argv, thinwire::optimizer_catalog());
}

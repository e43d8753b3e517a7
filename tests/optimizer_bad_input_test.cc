// Settings of methods that make no sense: one line that says what to do, and exit code 2, before
// anything is written.
#include "tests/support/cli_fixture.h"

namespace thinwire::test {
namespace {

class OptimizerBadInput : public CliTest {
 protected:
  void expect_method_refused(const std::string& method, const std::string& part) const {
    expect_usage_error(small_run("out", {"--methods", method}), part);
  }
};

TEST_F(OptimizerBadInput, NamesWhatAMethodDoesNotKnow) {
  for (const std::string method : {"adamw", "demo", "diloco", "dion2", "distro", "lion", "mural",
                                   "mural_local", "muloco", "muon", "onebit_adam", "powersgd",
                                   "sgd", "signum", "sparseloco", "streaming_diloco", "topk"}) {
    expect_method_refused(method + ":wheels=4", method + " has no setting 'wheels'; known: ");
  }
  expect_method_refused("diloco:k=5", "diloco has no setting 'k'");
}

TEST_F(OptimizerBadInput, NamesRulesThatThereAreNot) {
  const std::string known = "must be one of adamw, dion2, lion, muon, sgd, got 'rprop'";
  expect_method_refused("diloco:inner=rprop", "diloco: inner " + known);
  expect_method_refused("muloco:outer=rprop", "muloco: outer " + known);
  expect_method_refused("powersgd:rule=rprop", "powersgd: rule " + known);
  expect_method_refused("mural:signal=rprop",
                        "signal must be one of adamw, dion2, lion, muon, sgd, gradient, got");
}

TEST_F(OptimizerBadInput, DelaysThatReachTheNextWordAboutAPart) {
  expect_method_refused("streaming_diloco:h=4:delay=5", "delay (5) must be below h (4)");
  expect_method_refused("sparseloco:h=4:delay=4", "delay (4) must be below h (4)");
  expect_method_refused("sparseloco:h=1:delay=1", "with h = 1 a delay has no place");
  expect_method_refused("mural_local:delay=9", "delay must be an integer from 0 to 8, got '9'");
  expect_method_refused("diloco:delay=1", "cannot be delayed or cut in fragments; take streaming");
}

TEST_F(OptimizerBadInput, FragmentsWithoutAStepOrAUnit) {
  expect_method_refused("streaming_diloco:h=4:fragments=5",
                        "fragments (5) must be from 1 to h (4)");
  expect_method_refused("mural_local:fragments=11", "fragments (11) must be from 1 to h (10)");
  expect_method_refused("streaming_diloco:fragments=20",
                        "fragments (20) must not be more than the model has units (");
}

TEST_F(OptimizerBadInput, NumbersOutOfTheirRanges) {
  for (const std::string method : {"sparseloco", "mural_local", "mural", "topk", "demo"}) {
    for (const std::string k : {"0", "4097"}) {
      expect_method_refused(method + ":k=" + k, method + ": k must be an integer from 1 to 4096");
    }
  }
  expect_method_refused("sparseloco:alpha=0.5", "alpha must be 0 with feedback");
  expect_method_refused("diloco:alpha=2", "alpha must be a number from 0 to 1, got '2'");
  expect_method_refused("streaming_diloco:alpha=-0.1", "alpha must be a number from 0 to 1");
  expect_method_refused("diloco:h=0", "h must be an integer from 1 to 100000");
  expect_method_refused("onebit_adam:warmup=0", "warmup must be an integer from 1 to");
  expect_method_refused("dion2:fraction=0", "fraction must be a number from 1e-06 to 1");
  expect_method_refused("lion:beta1=1", "beta1 must be a number from 0 to 0.999999");
}

TEST_F(OptimizerBadInput, RanksAboveATileOrAboveEveryMatrix) {
  expect_method_refused("powersgd:rank=65", "rank must be an integer from 1 to 64, got '65'");
  expect_method_refused("powersgd:rank=0", "rank must be an integer from 1 to 64, got '0'");
  expect_usage_error(
      small_run("out", {"--methods", "powersgd:rank=33", "--set", "model.width=32"}),
      "rank (33) is above every matrix; the largest has 32 rows or columns: take that or less");
}

TEST_F(OptimizerBadInput, SettingsThatContradictEachOther) {
  for (const std::string method : {"mural", "topk", "demo"}) {
    expect_method_refused(method + ":bits=1:apply=linear", "apply = linear needs bits = 32");
  }
  // Tiles in turn are no matrices.
  for (const std::string rule : {"muon", "dion2"}) {
    expect_method_refused("mural_local:outer=" + rule, "take sgd, adamw or lion");
  }
}

}  // namespace
}  // namespace thinwire::test

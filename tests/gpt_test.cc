#include "models/gpt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "models/counter_random.h"
#include "models/text.h"
#include "tests/support/naive_gpt.h"
#include "tests/support/plain_units.h"
#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire {
namespace {

using test::PlainUnits;

const Text& words() {
  static const Text text = [] {
    std::vector<std::uint8_t> bytes;
    const std::string phrases[] = {"the wire is thin ", "and the sea is wide ", "so say little "};
    for (std::uint64_t i = 0; bytes.size() < 20000; ++i) {
      const std::string& phrase = phrases[random_bits(1, 1, i) % 3];
      bytes.insert(bytes.end(), phrase.begin(), phrase.end());
    }
    return Text::from_bytes(bytes);
  }();
  return text;
}

GptOptions little() {
  GptOptions options;
  options.layers = 2;
  options.width = 24;
  options.heads = 3;
  options.context = 160;
  options.mlp_ratio = 2;
  return options;
}

std::size_t count(const Gpt& model) { return Layout(model.parameters()).trainable_size(); }

struct Outcome {
  float loss;
  std::vector<float> gradient;
};

Outcome outcome(const GptOptions& options, const BatchOptions& batch, std::uint64_t step = 3) {
  Gpt model(options, words(), batch);
  PlainUnits units(model);
  const float loss = model.loss_and_grad(units, {.index = step});
  return {loss, units.whole_gradient()};
}

std::string complaint(auto&& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Gpt, PresetsHaveTheirPublishedSizes) {
  const auto size = [](const char* name) {
    return count(Gpt(GptOptions::preset(name), words(), {.global_batch = 1}));
  };
  EXPECT_EQ(size("nano"), 136960u);
  EXPECT_EQ(size("tiny"), 470528u);
  EXPECT_EQ(size("small"), 875264u);
  EXPECT_EQ(size("base"), 10942464u);
}

TEST(Gpt, UnknownPresetNamesTheKnownOnes) {
  EXPECT_NE(complaint([] { GptOptions::preset("big"); }).find("nano, tiny, small, base"),
            std::string::npos);
}

TEST(Gpt, NamesParametersAsGpt2Does) {
  const std::vector<ParameterSpec> all = Gpt(little(), words(), {.global_batch = 1}).parameters();
  std::vector<std::string> names;
  for (const ParameterSpec& spec : all) names.push_back(spec.name);
  const std::vector<std::string> first(names.begin(), names.begin() + 14);
  EXPECT_EQ(first,
            (std::vector<std::string>{
                "wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight",
                "h.0.attn.c_proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias", "h.0.mlp.c_fc.weight",
                "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight", "h.0.mlp.c_proj.bias"}));
  const std::vector<std::string> last(names.end() - 3, names.end());
  EXPECT_EQ(last, (std::vector<std::string>{"ln_f.weight", "ln_f.bias", "lm_head.weight"}));
  EXPECT_EQ(all[4].shape, (std::vector<std::size_t>{24, 72}));
  EXPECT_EQ(all[4].unit, 1);
  EXPECT_EQ(all.back().unit, 0);
}

TEST(Gpt, RefusesOptionsByTheNameOfTheField) {
  const auto refused = [](auto&& change) {
    GptOptions options = little();
    change(options);
    return complaint([&] { options.validate(); });
  };
  EXPECT_EQ(refused([](GptOptions&) {}), "");
  EXPECT_NE(refused([](auto& o) { o.layers = 0; }).find("layers"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.width = 25; }).find("width"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.heads = 0; }).find("heads"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.context = 0; }).find("context"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.vocab = 100; }).find("vocab"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.mlp_ratio = 0; }).find("mlp_ratio"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.threads = 0; }).find("threads"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.frozen = {"h.2."}; }).find("frozen"), std::string::npos);
  EXPECT_NE(refused([](auto& o) {
              o.width = 27;
              o.heads = 9;
              o.positions = Positions::rotary;
            }).find("positions"),
            std::string::npos);
}

TEST(Gpt, RefusesBatchesThatDoNotDivideAndTextsThatAreTooShort) {
  const auto refused = [](BatchOptions batch) {
    return complaint([&] { Gpt(little(), words(), batch); });
  };
  EXPECT_NE(refused({.global_batch = 3, .parts = 2}).find("global_batch"), std::string::npos);
  EXPECT_NE(refused({.global_batch = 0}).find("global_batch"), std::string::npos);
  EXPECT_NE(refused({.global_batch = 4, .part = 2, .parts = 2}).find("part"), std::string::npos);
  const Text brief = Text::from_bytes(std::vector<std::uint8_t>(100, 'a'));
  EXPECT_NE(complaint([&] { Gpt(little(), brief, {}); }).find("needs at least 3220"),
            std::string::npos);
}

TEST(Gpt, RefusesADeviceThatIsNotThereInTheWordsOfTheDriver) {
  GptOptions options = little();
  options.device = Device::cuda(cuda_devices());
  const std::string said = complaint([&] { Gpt(options, words(), {}); });
  EXPECT_NE(said.find(cuda_problem()), std::string::npos) << said;
  EXPECT_NE(said, "");
}

TEST(Gpt, InitialValuesDependOnSeedAndIndexAlone) {
  const Gpt model(little(), words(), {.seed = 1, .global_batch = 1});
  const Gpt other(little(), words(), {.seed = 2, .global_batch = 4});
  std::vector<float> a(24 * 72), b(24 * 72), c(24 * 72), d(24 * 72);
  model.initialize(4, 9, a);
  other.initialize(4, 9, b);
  model.initialize(4, 10, c);
  model.initialize(10, 9, Floats(d).first(24 * 48));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a[0], d[0]);
}

TEST(Gpt, InitialValuesHaveTheDeviationOfGpt2) {
  const Gpt model(GptOptions::preset("small"), words(), {.global_batch = 1});
  const auto deviation = [&](std::size_t index, std::size_t size) {
    std::vector<float> values(size);
    model.initialize(index, 5, values);
    double sum = 0.0, squares = 0.0;
    for (float v : values) sum += v, squares += static_cast<double>(v) * v;
    EXPECT_NEAR(sum / size, 0.0, 5e-4);
    return std::sqrt(squares / size);
  };
  EXPECT_NEAR(deviation(4, 128 * 384), 0.02, 3e-4);                   // c_attn
  EXPECT_NEAR(deviation(6, 128 * 128), 0.02 / std::sqrt(8.0), 3e-4);  // c_proj
  std::vector<float> gains(128, 7.0f), biases(128, 7.0f);
  model.initialize(2, 5, gains);
  model.initialize(3, 5, biases);
  EXPECT_EQ(gains, std::vector<float>(128, 1.0f));
  EXPECT_EQ(biases, std::vector<float>(128, 0.0f));
}

class NaiveForward : public ::testing::TestWithParam<int> {};

TEST_P(NaiveForward, AgreesWithAPlainLoopOverEverything) {
  GptOptions options = little();
  options.context = 45;  // attention works in bands of 32 rows
  options.positions = GetParam() & 1 ? Positions::rotary : Positions::learned;
  options.activation = GetParam() & 2 ? Activation::swiglu : Activation::gelu;
  options.tied_head = GetParam() & 4;
  options.bias = GetParam() & 8;
  const BatchOptions batch{.seed = 4, .global_batch = 3};
  Gpt model(options, words(), batch);
  PlainUnits units(model);
  std::vector<std::vector<double>> weights;
  for (std::size_t i = 0; i < units.layout().parameters().size(); ++i) {
    const Floats values = units.values(i);
    for (std::size_t j = 0; j < values.size(); ++j) values[j] += 0.2f * random_normal(8, i, j);
    weights.emplace_back(values.begin(), values.end());
  }
  double expected = 0.0;
  for (std::size_t i = 0; i < batch.global_batch; ++i) {
    const std::size_t start = words().sample({batch.seed, 6, i}, options.context);
    expected += test::naive_loss(options, model.parameters(), weights,
                                 words().bytes().subspan(start, options.context + 1));
  }
  expected /= static_cast<double>(batch.global_batch);
  EXPECT_NEAR(model.loss_and_grad(units, {.index = 6}), expected, 2e-6 * expected);
}

INSTANTIATE_TEST_SUITE_P(AllOptions, NaiveForward, ::testing::Range(0, 16));

class Threads : public ::testing::TestWithParam<int> {};

TEST_P(Threads, DoNotChangeABit) {
  GptOptions options = little();
  const BatchOptions batch{.seed = 2, .global_batch = 17};  // five slices of unequal size
  const Outcome one = outcome(options, batch);
  options.threads = GetParam();
  const Outcome many = outcome(options, batch);
  EXPECT_EQ(one.loss, many.loss);
  EXPECT_EQ(one.gradient, many.gradient);
}

INSTANTIATE_TEST_SUITE_P(UpToMoreThanSlices, Threads, ::testing::Values(2, 3, 8));

TEST(Gpt, GivesTheSameBitsWhenItIsAskedAgain) {
  Gpt model(little(), words(), {.global_batch = 7});
  PlainUnits units(model);
  const float loss = model.loss_and_grad(units, {.index = 1});
  const std::vector<float> gradient = units.whole_gradient();
  model.loss_and_grad(units, {.index = 2});
  EXPECT_NE(units.whole_gradient(), gradient);
  model.held_out_loss(units, 0, 5);
  EXPECT_EQ(model.loss_and_grad(units, {.index = 1}), loss);
  EXPECT_EQ(units.whole_gradient(), gradient);
}

TEST(Gpt, RunningBlocksTwiceChangesNoBit) {
  GptOptions options = little();
  const Outcome kept = outcome(options, {.global_batch = 7});
  options.recompute = true;
  const Outcome twice = outcome(options, {.global_batch = 7});
  EXPECT_EQ(kept.loss, twice.loss);
  EXPECT_EQ(kept.gradient, twice.gradient);
}

TEST(Gpt, PartsTogetherSeeTheWholeBatch) {
  const Outcome whole = outcome(little(), {.seed = 3, .global_batch = 6});
  double loss = 0.0;
  std::vector<double> mean(whole.gradient.size());
  for (std::size_t part = 0; part < 3; ++part) {
    const Outcome one = outcome(little(), {.seed = 3, .global_batch = 6, .part = part, .parts = 3});
    loss += one.loss / 3.0;
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += one.gradient[i] / 3.0;
  }
  EXPECT_NEAR(loss, whole.loss, 1e-5);
  for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], whole.gradient[i], 1e-6);
}

TEST(Gpt, TakesOneUnitAtATimeAndEachGradientOnce) {
  Gpt model(little(), words(), {.global_batch = 2});
  PlainUnits units(model);
  model.loss_and_grad(units, {});
  EXPECT_EQ(units.take_log(), "w0 /w0 w1 /w1 w2 /w2 w0 /w0 w2 /w2 g2 /g2 w1 /w1 g1 /g1 g0 /g0");
  EXPECT_EQ(units.most_weights_at_once(), 1);
  model.held_out_loss(units, 0, 2);
  EXPECT_EQ(units.take_log(), "w0 /w0 w1 /w1 w2 /w2 w0 /w0");
}

TEST(Gpt, FrozenParametersGetNoGradientAndChangeNoOther) {
  for (bool tied : {false, true}) {
    GptOptions options = little();
    options.tied_head = tied;
    const auto gradients = [&] {
      Gpt model(options, words(), {.global_batch = 2});
      PlainUnits units(model);
      model.loss_and_grad(units, {});
      std::map<std::string, std::vector<float>> found;
      for (std::size_t i = 0; i < units.layout().parameters().size(); ++i) {
        const Place& place = units.layout().place(i);
        if (!place.trainable) continue;
        const auto begin = units.gradient_of(place.unit).begin() + place.offset;
        found[units.layout().parameters()[i].name].assign(begin, begin + place.size);
      }
      return found;
    };
    auto all = gradients();
    options.frozen = {"wte", "wpe", "h.0.", "h.1.ln_1.bias", "h.1.attn.c_attn.weight"};
    auto rest = gradients();
    EXPECT_EQ(rest.size(), tied ? 12u : 13u);
    EXPECT_FALSE(rest.contains("wte.weight"));
    EXPECT_FALSE(rest.contains("h.0.mlp.c_fc.weight"));
    for (const auto& [name, gradient] : rest) EXPECT_EQ(gradient, all.at(name)) << name;
  }
}

TEST(Gpt, HeldOutLossIsAMeanOverFixedWindows) {
  Gpt model(little(), words(), {.global_batch = 3, .held_out_windows = 10});
  PlainUnits units(model);
  const double whole = model.held_out_loss(units, 0, 10);
  const double parts =
      0.4 * model.held_out_loss(units, 0, 4) + 0.6 * model.held_out_loss(units, 4, 6);
  EXPECT_NEAR(whole, parts, 1e-6);
  EXPECT_NEAR(whole, std::log(256.0), 0.1);
  EXPECT_THROW(model.held_out_loss(units, 5, 6), UsageError);
  EXPECT_THROW(model.held_out_loss(units, 0, 0), UsageError);
}

TEST(Gpt, LearnsTheTextByPlainDescent) {
  GptOptions options = GptOptions::preset("nano");
  Gpt model(options, words(), {.global_batch = 4});
  PlainUnits units(model);
  const double before = model.held_out_loss(units, 0, 16);
  for (std::uint64_t step = 0; step < 40; ++step) {
    model.loss_and_grad(units, {.index = step});
    for (int u = 0; u < units.layout().units(); ++u) {
      std::vector<float>& weights = units.weights_of(u);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] -= 0.3f * units.gradient_of(u)[i];
      }
    }
  }
  EXPECT_LT(model.held_out_loss(units, 0, 16), before - 2.0);
}

}  // namespace
}  // namespace thinwire

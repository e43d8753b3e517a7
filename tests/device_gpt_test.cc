// A GPT on a device against the same GPT on the host, in float and in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "models/counter_random.h"
#include "models/gpt_device_internal.h"
#include "models/text.h"
#include "tests/support/device_orders.h"
#include "tests/support/device_units.h"
#include "tests/support/plain_units.h"
#include "thinwire/error.h"
#ifdef THINWIRE_EMULATED_CUDA
#include "tests/support/fake_cuda/machine.h"
#endif

namespace thinwire {
namespace {

using test::DeviceUnits;
using test::PlainUnits;
using testing_support::for_each_order;

constexpr Device kDevice = Device::cuda(0);
constexpr std::size_t kWindows = 3;

struct Parameter {
  GptParameter parameter;
  std::size_t offset;
  std::size_t size;
};

std::vector<Parameter> places_of(const GptOptions& options) {
  std::vector<Parameter> places;
  std::size_t offset = 0;
  for (const GptParameter& parameter : gpt_parameters(options)) {
    std::size_t size = 1;
    for (std::size_t extent : parameter.spec.shape) size *= extent;
    places.push_back({parameter, offset, size});
    offset += size;
  }
  return places;
}

std::vector<float> random_values(const std::vector<Parameter>& places) {
  std::vector<float> values;
  for (const Parameter& place : places) {
    const std::string& name = place.parameter.spec.name;
    const bool gain = name.find("ln_") != name.npos && name.ends_with("weight");
    for (std::size_t i = 0; i < place.size; ++i) {
      values.push_back((gain ? 1.0f : 0.0f) + 0.3f * random_normal(7, values.size(), i));
    }
  }
  return values;
}

// Pointers to the parameters of a unit within one array of all.
template <class Array, class Scalar>
Array pointers(const std::vector<Parameter>& places, std::size_t unit, Scalar* all) {
  Array result{};
  for (const Parameter& p : places) {
    if (p.parameter.spec.unit == static_cast<int>(unit)) result[p.parameter.slot] = all + p.offset;
  }
  return result;
}

struct Batch {
  explicit Batch(const GptOptions& options) {
    for (std::size_t i = 0; i < kWindows; ++i) {
      for (std::size_t t = 0; t <= options.context; ++t) {
        tokens[i].push_back(static_cast<std::uint8_t>(random_bits(3, i, t) % options.vocab));
      }
      windows.push_back(tokens[i].data());
    }
  }
  std::vector<std::uint8_t> tokens[kWindows];
  std::vector<const std::uint8_t*> windows;
};

template <class Scalar>
struct Found {
  double loss = 0.0;
  std::vector<Scalar> gradient;
};

Found<double> on_host(const GptOptions& options) {
  const std::vector<Parameter> places = places_of(options);
  const std::vector<float> floats = random_values(places);
  const std::vector<double> values(floats.begin(), floats.end());
  Found<double> found{0.0, std::vector<double>(values.size())};
  using Core = GptCore<double>;
  const auto w = [&](std::size_t u) { return pointers<Core::Weights>(places, u, values.data()); };
  const auto g = [&](std::size_t u) {
    return pointers<Core::Gradient>(places, u, found.gradient.data());
  };
  const Batch batch(options);
  Core core(options, kWindows);
  core.start(batch.windows);
  core.embed(w(0));
  for (std::size_t i = 0; i < options.layers; ++i) core.block(i, w(i + 1));
  found.loss = core.loss(w(0), 0.5);
  core.head_backward(w(0), g(0));
  for (std::size_t i = options.layers; i-- > 0;) core.block_backward(i, w(i + 1), g(i + 1));
  core.embed_backward(g(0));
  return found;
}

Found<float> on_device(const GptOptions& options) {
  const std::vector<Parameter> places = places_of(options);
  FloatBuffer values(random_values(places), kDevice);
  FloatBuffer gradient(values.size(), kDevice);
  const auto w = [&](std::size_t u) {
    return pointers<GptDevice::Weights>(places, u, values.floats().data());
  };
  const auto g = [&](std::size_t u) {
    return pointers<GptDevice::Gradient>(places, u, gradient.floats().data());
  };
  GptDevice core(options, kWindows, kDevice);
  {
    const Batch batch(options);  // which nobody reads after the start
    core.start(batch.windows);
  }
  core.embed(w(0));
  for (std::size_t i = 0; i < options.layers; ++i) core.block(i, w(i + 1));
  core.loss(w(0), 0.5f);
  core.head_backward(w(0));
  for (std::size_t i = options.layers; i-- > 0;) core.block_backward(i, w(i + 1), g(i + 1));
  core.outer_backward(g(0));
  Found<float> found;
  found.loss = core.take_loss();
  found.gradient = to_host(gradient);
  return found;
}

using Case = std::tuple<Positions, Activation, bool, bool>;

GptOptions small_options(const Case& chosen) {
  GptOptions options;
  options.layers = 2;
  options.width = 36;  // more than a warp, and no multiple of it
  options.heads = 2;
  options.context = 13;
  options.vocab = 43;
  options.mlp_ratio = 2;
  std::tie(options.positions, options.activation, options.tied_head, options.bias) = chosen;
  return options;
}

// Emulated products add in order and take the host's exp; those of a card do neither.
#ifdef THINWIRE_EMULATED_CUDA
constexpr double kLossBound = 1e-6;
constexpr double kGradientBound = 3e-6;
#else
constexpr double kLossBound = 1e-5;
constexpr double kGradientBound = 2e-5;
#endif

class DeviceGptOptions : public ::testing::TestWithParam<Case> {};

// Errors are measured by the largest value of a parameter's gradient: small ones are differences.
TEST_P(DeviceGptOptions, GiveLossAndGradientsOfTheHost) {
  const GptOptions options = small_options(GetParam());
  const Found<double> host = on_host(options);
  const Found<float> device = on_device(options);
  EXPECT_NEAR(device.loss, host.loss, kLossBound * host.loss);
  ASSERT_EQ(device.gradient.size(), host.gradient.size());
  for (const Parameter& place : places_of(options)) {
    double largest = 0.0, error = 0.0;
    for (std::size_t i = place.offset; i < place.offset + place.size; ++i) {
      largest = std::max(largest, std::abs(host.gradient[i]));
      error = std::max(error, std::abs(device.gradient[i] - host.gradient[i]));
    }
    EXPECT_GT(largest, 1e-3) << place.parameter.spec.name;
    EXPECT_LT(error, kGradientBound * largest) << place.parameter.spec.name;
  }
}

TEST_P(DeviceGptOptions, GiveTheSameBitsInAnyOrderOfThreadsAndWhenBlocksAreRunTwice) {
  GptOptions options = small_options(GetParam());
  const Found<float> first = on_device(options);
  for_each_order([&](const std::string& order) {
    const Found<float> again = on_device(options);
    EXPECT_EQ(again.loss, first.loss) << order;
    EXPECT_EQ(again.gradient, first.gradient) << order;
  });
  options.recompute = true;
  const Found<float> twice = on_device(options);
  EXPECT_EQ(twice.loss, first.loss);
  EXPECT_EQ(twice.gradient, first.gradient);
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [positions, activation, tied, bias] = info.param;
  return std::string(positions == Positions::rotary ? "Rotary" : "Learned") +
         (activation == Activation::swiglu ? "Swiglu" : "Gelu") + (tied ? "Tied" : "Free") +
         (bias ? "Biased" : "Unbiased");
}

INSTANTIATE_TEST_SUITE_P(All, DeviceGptOptions,
                         ::testing::Combine(::testing::Values(Positions::learned,
                                                              Positions::rotary),
                                            ::testing::Values(Activation::gelu, Activation::swiglu),
                                            ::testing::Bool(), ::testing::Bool()),
                         case_name);

// Here sums over rows have many bands, and rows of attention are longer than a warp.
TEST(DeviceGptOfLongWindows, GivesLossAndGradientsOfTheHost) {
  GptOptions options = small_options({Positions::rotary, Activation::gelu, true, true});
  options.layers = 1;
  options.context = 71;
  const Found<double> host = on_host(options);
  const Found<float> device = on_device(options);
  EXPECT_NEAR(device.loss, host.loss, kLossBound * host.loss);
  double squares = 0.0, errors = 0.0;
  for (std::size_t i = 0; i < host.gradient.size(); ++i) {
    squares += std::pow(host.gradient[i], 2);
    errors += std::pow(device.gradient[i] - host.gradient[i], 2);
  }
  EXPECT_LT(std::sqrt(errors / squares), 1e-6);
}

const Text& words() {
  static const Text text = [] {
    std::vector<std::uint8_t> bytes;
    const std::string phrases[] = {"the wire is thin ", "and the sea is wide ", "so say little "};
    for (std::uint64_t i = 0; bytes.size() < 6000; ++i) {
      const std::string& phrase = phrases[random_bits(1, 1, i) % 3];
      bytes.insert(bytes.end(), phrase.begin(), phrase.end());
    }
    return Text::from_bytes(bytes);
  }();
  return text;
}

GptOptions little(Device device = kDevice) {
  GptOptions options;
  options.layers = 2;
  options.width = 16;
  options.heads = 2;
  options.context = 8;
  options.mlp_ratio = 2;
  options.device = device;
  return options;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  double squares = 0.0, errors = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += std::pow(b[i], 2);
    errors += std::pow(double{a[i]} - b[i], 2);
  }
  EXPECT_GT(squares, 0.0);
  EXPECT_LT(std::sqrt(errors / squares), kGradientBound);
}

TEST(DeviceGpt, TrainsOnTheBatchOfTheHost) {
  const BatchOptions batch{.seed = 4, .global_batch = 10, .part = 1, .parts = 2};
  Gpt here(little({}), words(), batch);
  Gpt there(little(), words(), batch);
  PlainUnits host(here);
  DeviceUnits device(there, kDevice);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const float loss = here.loss_and_grad(host, {.index = step});
    EXPECT_NEAR(there.loss_and_grad(device, {.index = step}), loss, 2e-6 * loss);
    expect_near(device.whole_gradient(), host.whole_gradient());
  }
}

TEST(DeviceGpt, TrainsOnMicroBatches) {
  const BatchOptions batch{.seed = 4, .global_batch = 6, .micro_batches = 2};
  Gpt here(little({}), words(), batch);
  Gpt there(little(), words(), batch);
  PlainUnits host(here);
  DeviceUnits device(there, kDevice);
  const Step step{.index = 5, .micro = 1, .micros = 2};
  const float loss = here.loss_and_grad(host, step);
  EXPECT_NEAR(there.loss_and_grad(device, step), loss, 2 * kLossBound * loss);
  expect_near(device.whole_gradient(), host.whole_gradient());
}

TEST(DeviceGpt, GivesTheSameBitsWhenItIsAskedAgain) {
  Gpt model(little(), words(), {.global_batch = 5});
  DeviceUnits units(model, kDevice);
  const float loss = model.loss_and_grad(units, {.index = 1});
  const std::vector<float> gradient = units.whole_gradient();
  model.loss_and_grad(units, {.index = 2});
  EXPECT_NE(units.whole_gradient(), gradient);
  model.held_out_loss(units, 0, 3);
  EXPECT_EQ(model.loss_and_grad(units, {.index = 1}), loss);
  EXPECT_EQ(units.whole_gradient(), gradient);
}

TEST(DeviceGpt, MayBeMadeByOneThreadAndUsedByAnother) {
  Gpt model(little(), words(), {.global_batch = 3});
  std::vector<float> first, second;
  const auto train = [&](std::vector<float>& gradient) {
    DeviceUnits units(model, kDevice);
    model.loss_and_grad(units, {.index = 1});
    gradient = units.whole_gradient();
  };
  std::thread([&] { train(first); }).join();
  train(second);
  EXPECT_EQ(first, second);
}

TEST(DeviceGpt, TakesOneUnitAtATimeAndEachGradientOnce) {
  Gpt model(little(), words(), {.global_batch = 2});
  DeviceUnits units(model, kDevice);
  model.loss_and_grad(units, {});
  EXPECT_EQ(units.take_log(), "w0 /w0 w1 /w1 w2 /w2 w0 /w0 w2 g2 /g2 /w2 w1 g1 /g1 /w1 g0 /g0");
  model.held_out_loss(units, 0, 2);
  EXPECT_EQ(units.take_log(), "w0 /w0 w1 /w1 w2 /w2 w0 /w0");
}

TEST(DeviceGpt, FrozenParametersGetNoGradientAndChangeNoOther) {
  for (bool tied : {false, true}) {
    GptOptions options = little();
    options.tied_head = tied;
    const auto gradients = [&] {
      Gpt model(options, words(), {.global_batch = 2});
      DeviceUnits units(model, kDevice);
      model.loss_and_grad(units, {});
      EXPECT_FALSE(units.touched_frozen_gradients());
      std::map<std::string, std::vector<float>> found;
      for (std::size_t i = 0; i < units.layout().parameters().size(); ++i) {
        const ParameterSpec& spec = units.layout().parameters()[i];
        if (spec.trainable) found[spec.name] = units.gradient(i);
      }
      return found;
    };
    const auto all = gradients();
    options.frozen = {"wte", "wpe", "ln_f.weight", "h.0.", "h.1.ln_1.", "h.1.attn.c_attn.weight"};
    const auto rest = gradients();
    EXPECT_EQ(rest.size(), tied ? 10u : 11u);
    EXPECT_FALSE(rest.contains("wte.weight"));
    for (const auto& [name, gradient] : rest) EXPECT_EQ(gradient, all.at(name)) << name;
  }
}

TEST(DeviceGpt, HeldOutLossIsThatOfTheHost) {
  const BatchOptions batch{.global_batch = 3, .held_out_windows = 10};
  Gpt here(little({}), words(), batch);
  Gpt there(little(), words(), batch);
  PlainUnits host(here);
  DeviceUnits device(there, kDevice);
  for (const std::size_t count : {3u, 7u, 10u}) {
    const double loss = here.held_out_loss(host, 0, count);
    EXPECT_NEAR(there.held_out_loss(device, 0, count), loss, 1e-6 * loss);
  }
  EXPECT_THROW(there.held_out_loss(device, 5, 6), UsageError);
}

TEST(DeviceGpt, RefusesADeviceThatIsNotThere) {
  const auto make = [](Device device) { Gpt(little(device), words(), {.global_batch = 2}); };
  EXPECT_THROW(make(Device::cuda(77)), UsageError);
}

#ifdef THINWIRE_EMULATED_CUDA
class DeviceGptMemory : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::set_machine({}); }
  void TearDown() override { fake_cuda::set_machine({}); }
};

TEST_F(DeviceGptMemory, TooLittleIsSaidAndNothingStaysTaken) {
  const auto make = [] {
    return std::make_unique<Gpt>(little(), words(), BatchOptions{.global_batch = 4});
  };
  const std::size_t before = fake_cuda::bytes_in_use(0);
  std::size_t needed = 0;
  {
    const auto model = make();
    needed = fake_cuda::bytes_in_use(0) - before;
  }
  EXPECT_EQ(fake_cuda::bytes_in_use(0), before);
  EXPECT_GT(needed, 10000u);
  for (const std::size_t room : {std::size_t{1000}, needed / 2, needed - 600, needed - 1}) {
    fake_cuda::set_machine({.bytes = before + room});
    try {
      make();
      ADD_FAILURE() << "there was room in " << room << " of " << needed << " bytes";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("has no room for"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(fake_cuda::bytes_in_use(0), before) << room << " of " << needed;
  }
  fake_cuda::set_machine({});
  make();
}

TEST_F(DeviceGptMemory, ALostDeviceIsAnErrorThatSaysWhatToDo) {
  Gpt model(little(), words(), {.global_batch = 2});
  DeviceUnits units(model, kDevice);
  model.loss_and_grad(units, {});
  for (const std::uint64_t calls : {0u, 1u, 40u}) {
    fake_cuda::lose_devices(calls);
    try {
      model.loss_and_grad(units, {});
      ADD_FAILURE() << "nothing was noticed after " << calls << " calls";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("go on from a checkpoint"), std::string::npos)
          << error.what();
    }
    fake_cuda::set_machine({});
  }
}

TEST_F(DeviceGptMemory, AStepWaitsForTheDeviceAtItsEndAlone) {
  Gpt model(little(), words(), {.global_batch = 2});
  DeviceUnits units(model, kDevice);
  std::vector<std::size_t> waiting;
  units.at_each_take([&] { waiting.push_back(fake_cuda::pending(0)); });
  wait_for(kDevice);
  model.loss_and_grad(units, {});
  EXPECT_EQ(waiting.size(), 9u);
  EXPECT_GT(waiting.front(), 0u);  // the tokens
  EXPECT_TRUE(std::ranges::is_sorted(waiting));
  EXPECT_EQ(fake_cuda::pending(0), 0u);  // the loss is there, so all is
}
#endif

}  // namespace
}  // namespace thinwire

// The backward pass against central differences, parameter by parameter, in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "models/counter_random.h"
#include "models/gpt_core.h"

namespace thinwire {
namespace {

using Core = GptCore<double>;

// All parameters of a small model in one vector, with a loss over two windows.
class Proof {
 public:
  explicit Proof(const GptOptions& options) : options_(options), core_(options, 2) {
    for (const GptParameter& parameter : gpt_parameters(options)) {
      std::size_t size = 1;
      for (std::size_t extent : parameter.spec.shape) size *= extent;
      places_.push_back({parameter, values_.size(), size});
      const bool gain = parameter.spec.name.ends_with("ln_1.weight") ||
                        parameter.spec.name.ends_with("ln_2.weight") ||
                        parameter.spec.name == "ln_f.weight";
      for (std::size_t i = 0; i < size; ++i) {
        values_.push_back((gain ? 1.0 : 0.0) + 0.3 * random_normal(7, places_.size(), i));
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (std::size_t t = 0; t <= options.context; ++t) {
        tokens_[i].push_back(static_cast<std::uint8_t>(random_bits(3, i, t) % options.vocab));
      }
    }
  }

  double loss() {
    const std::uint8_t* windows[] = {tokens_[0].data(), tokens_[1].data()};
    core_.start(windows);
    core_.embed(weights(0));
    for (std::size_t i = 0; i < options_.layers; ++i) core_.block(i, weights(i + 1));
    return core_.loss(weights(0), 1.0);
  }

  std::vector<double> gradient() {
    std::vector<double> gradient(values_.size());
    loss();
    core_.head_backward(weights(0), into(gradient, 0));
    for (std::size_t i = options_.layers; i-- > 0;) {
      core_.block_backward(i, weights(i + 1), into(gradient, i + 1));
    }
    core_.embed_backward(into(gradient, 0));
    return gradient;
  }

  // Fourth-order central difference: its own error is about 1e-12 here.
  double difference(std::size_t index) {
    constexpr double kStep = 1e-3;
    const double value = values_[index];
    const auto at = [&](double steps) {
      values_[index] = value + steps * kStep;
      return loss();
    };
    const double slope = (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * kStep);
    values_[index] = value;
    return slope;
  }

  std::size_t size() const { return values_.size(); }
  std::string name_of(std::size_t index) const {
    for (const Parameter& place : places_) {
      if (index < place.offset + place.size) return place.parameter.spec.name;
    }
    return "";
  }

 private:
  struct Parameter {
    GptParameter parameter;
    std::size_t offset;
    std::size_t size;
  };

  Core::Weights weights(std::size_t unit) const {
    Core::Weights result{};
    for (const Parameter& p : places_) {
      if (p.parameter.spec.unit == static_cast<int>(unit)) {
        result[p.parameter.slot] = values_.data() + p.offset;
      }
    }
    return result;
  }
  Core::Gradient into(std::vector<double>& gradient, std::size_t unit) const {
    Core::Gradient result{};
    for (const Parameter& p : places_) {
      if (p.parameter.spec.unit == static_cast<int>(unit)) {
        result[p.parameter.slot] = gradient.data() + p.offset;
      }
    }
    return result;
  }

  GptOptions options_;
  Core core_;
  std::vector<Parameter> places_;
  std::vector<double> values_;
  std::vector<std::uint8_t> tokens_[2];
};

using Case = std::tuple<Positions, Activation, bool, bool>;

GptOptions small_options(const Case& chosen) {
  GptOptions options;
  options.layers = 2;
  options.width = 12;
  options.heads = 2;
  options.context = 5;
  options.vocab = 11;
  options.mlp_ratio = 2;
  std::tie(options.positions, options.activation, options.tied_head, options.bias) = chosen;
  return options;
}

class GptGradient : public ::testing::TestWithParam<Case> {};

TEST_P(GptGradient, AgreesWithDifferencesForEveryParameter) {
  Proof proof(small_options(GetParam()));
  const std::vector<double> gradient = proof.gradient();
  double largest = 0.0;
  for (std::size_t i = 0; i < proof.size(); ++i) {
    const double slope = proof.difference(i);
    largest = std::max(largest, std::abs(slope));
    const double size = std::max({std::abs(slope), std::abs(gradient[i]), 1e-3});
    ASSERT_LT(std::abs(slope - gradient[i]) / size, 1e-6)
        << proof.name_of(i) << " value " << i << ": " << gradient[i] << ", difference " << slope;
  }
  EXPECT_GT(largest, 0.1);
}

TEST_P(GptGradient, IsEqualToTheBitWhenBlocksAreRunTwice) {
  GptOptions options = small_options(GetParam());
  const std::vector<double> kept = Proof(options).gradient();
  options.recompute = true;
  EXPECT_EQ(Proof(options).gradient(), kept);
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [positions, activation, tied, bias] = info.param;
  return std::string(positions == Positions::rotary ? "Rotary" : "Learned") +
         (activation == Activation::swiglu ? "Swiglu" : "Gelu") + (tied ? "Tied" : "Free") +
         (bias ? "Biased" : "Unbiased");
}

INSTANTIATE_TEST_SUITE_P(AllOptions, GptGradient,
                         ::testing::Combine(::testing::Values(Positions::learned,
                                                              Positions::rotary),
                                            ::testing::Values(Activation::gelu, Activation::swiglu),
                                            ::testing::Bool(), ::testing::Bool()),
                         case_name);

}  // namespace
}  // namespace thinwire

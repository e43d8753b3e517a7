// The model's forward pass as the papers write it: one window, one position, one sum after the
// other, in double. Slow and obvious, for comparison.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/gpt.h"

namespace thinwire::test {

using Vector = std::vector<double>;
using Named = std::map<std::string, Vector>;

inline Vector naive_norm(const Vector& x, const Named& w, const std::string& name) {
  double mean = 0.0, variance = 0.0;
  for (double v : x) mean += v / x.size();
  for (double v : x) variance += (v - mean) * (v - mean) / x.size();
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * w.at(name + ".weight")[i];
    if (w.contains(name + ".bias")) y[i] += w.at(name + ".bias")[i];
  }
  return y;
}

inline Vector naive_linear(const Vector& x, const Named& w, const std::string& name) {
  const Vector& weight = w.at(name + ".weight");
  Vector y(weight.size() / x.size());
  for (std::size_t j = 0; j < y.size(); ++j) {
    if (w.contains(name + ".bias")) y[j] = w.at(name + ".bias")[j];
    for (std::size_t i = 0; i < x.size(); ++i) y[j] += x[i] * weight[i * y.size() + j];
  }
  return y;
}

inline void naive_rotate(double* head, std::size_t size, std::size_t position) {
  for (std::size_t j = 0; j < size / 2; ++j) {
    const double angle = position / std::pow(10000.0, 2.0 * j / size);
    const double x = head[j], y = head[j + size / 2];
    head[j] = x * std::cos(angle) - y * std::sin(angle);
    head[j + size / 2] = y * std::cos(angle) + x * std::sin(angle);
  }
}

inline std::vector<Vector> naive_attention(std::vector<Vector> qkv, const GptOptions& options) {
  const std::size_t width = options.width, size = width / options.heads;
  std::vector<Vector> out(qkv.size(), Vector(width));
  for (std::size_t h = 0; h < options.heads; ++h) {
    if (options.positions == Positions::rotary) {
      for (std::size_t t = 0; t < qkv.size(); ++t) {
        naive_rotate(&qkv[t][h * size], size, t);
        naive_rotate(&qkv[t][width + h * size], size, t);
      }
    }
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      Vector weight(t + 1);
      double sum = 0.0;
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t j = h * size; j < (h + 1) * size; ++j) {
          weight[s] += qkv[t][j] * qkv[s][width + j] / std::sqrt(double(size));
        }
        sum += weight[s] = std::exp(weight[s]);
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t j = h * size; j < (h + 1) * size; ++j) {
          out[t][j] += weight[s] / sum * qkv[s][2 * width + j];
        }
      }
    }
  }
  return out;
}

inline Vector naive_activation(const Vector& x, Activation activation) {
  const std::size_t hidden = activation == Activation::swiglu ? x.size() / 2 : x.size();
  Vector y(hidden);
  for (std::size_t i = 0; i < hidden; ++i) {
    y[i] =
        activation == Activation::swiglu
            ? x[i] / (1.0 + std::exp(-x[i])) * x[hidden + i]
            : 0.5 * x[i] *
                  (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x[i] + 0.044715 * std::pow(x[i], 3))));
  }
  return y;
}

// Mean over the window's targets of -log p.
inline double naive_loss(const GptOptions& options, const std::vector<ParameterSpec>& specs,
                         const std::vector<Vector>& values, std::span<const std::uint8_t> window) {
  Named w;
  for (std::size_t i = 0; i < specs.size(); ++i) w[specs[i].name] = values[i];
  const std::size_t width = options.width, length = window.size() - 1;
  std::vector<Vector> x(length, Vector(width));
  for (std::size_t t = 0; t < length; ++t) {
    for (std::size_t j = 0; j < width; ++j) {
      x[t][j] = w.at("wte.weight")[window[t] * width + j];
      if (options.positions == Positions::learned) x[t][j] += w.at("wpe.weight")[t * width + j];
    }
  }
  for (std::size_t layer = 0; layer < options.layers; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    std::vector<Vector> qkv;
    for (const Vector& row : x) {
      qkv.push_back(naive_linear(naive_norm(row, w, h + "ln_1"), w, h + "attn.c_attn"));
    }
    const std::vector<Vector> attended = naive_attention(qkv, options);
    for (std::size_t t = 0; t < length; ++t) {
      const Vector projected = naive_linear(attended[t], w, h + "attn.c_proj");
      for (std::size_t j = 0; j < width; ++j) x[t][j] += projected[j];
      const Vector inner = naive_linear(naive_norm(x[t], w, h + "ln_2"), w, h + "mlp.c_fc");
      const Vector out =
          naive_linear(naive_activation(inner, options.activation), w, h + "mlp.c_proj");
      for (std::size_t j = 0; j < width; ++j) x[t][j] += out[j];
    }
  }
  const Vector& head = w.at(options.tied_head ? "wte.weight" : "lm_head.weight");
  double loss = 0.0;
  for (std::size_t t = 0; t < length; ++t) {
    const Vector last = naive_norm(x[t], w, "ln_f");
    Vector logits(options.vocab);
    double sum = 0.0;
    for (std::size_t v = 0; v < options.vocab; ++v) {
      for (std::size_t j = 0; j < width; ++j) logits[v] += last[j] * head[v * width + j];
      sum += std::exp(logits[v]);
    }
    loss += (std::log(sum) - logits[window[t + 1]]) / length;
  }
  return loss;
}

}  // namespace thinwire::test

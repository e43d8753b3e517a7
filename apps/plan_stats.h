// What a few seeds say about the difference of two methods: both ran with the same seeds, so the
// differences are taken seed by seed, and the interval is Student's. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace thinwire::app {

// The 0.975 quantile of Student's t, which a two-sided interval of 95 % takes. `degrees` of
// freedom: 1 to 30.
double student_t_975(std::size_t degrees);

struct Interval {
  double mean = 0.0;  // NaN when there is no pair
  double half = 0.0;  // mean +- half holds the true mean with 95 %; NaN with less than two
  std::size_t pairs = 0;
};

// Of the differences a - b, one a seed, both in the order of the seeds.
Interval paired_difference(const std::vector<double>& a, const std::vector<double>& b);

double mean_of(const std::vector<double>& values);                // NaN when there are none
double standard_deviation_of(const std::vector<double>& values);  // of a sample; NaN below two

}  // namespace thinwire::app

// SPDX-License-Identifier: MIT OR Apache-2.0
// Fibonacci numbers by fork and join, a task for each call, on two threads; the file of the first argument has their count.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <tbb/global_control.h>
#include <tbb/parallel_invoke.h>

using Clock = std::chrono::steady_clock;

// It ends by itself after this, whatever becomes of the benchmark.
constexpr std::chrono::minutes MOST{10};
constexpr std::chrono::milliseconds TICK{5};
constexpr int NUMBER = 16;
constexpr long EXPECTED = 987;

static long fibonacci(int n) {
    if (n < 2) return n;
    long a = 0, b = 0;
    tbb::parallel_invoke([&] { a = fibonacci(n - 1); }, [&] { b = fibonacci(n - 2); });
    return a + b;
}

int main(int, char **arguments) {
    tbb::global_control two(tbb::global_control::max_allowed_parallelism, 2);
    const std::string file = arguments[1], next = file + ".new";
    const auto begun = Clock::now();
    auto told = begun;
    for (long count = 1; told - begun < MOST; count++) {
        if (fibonacci(NUMBER) != EXPECTED) return 1;
        if (Clock::now() - told < TICK) continue;
        std::ofstream(next) << count;
        if (std::rename(next.c_str(), file.c_str()) != 0) return 1;
        told = Clock::now();
    }
}

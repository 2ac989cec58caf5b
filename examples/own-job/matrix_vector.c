/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A job of one's own for corehop: y = A x, in single precision.
 *
 * The memory holds x, y and the rows of A, one after the other; how many of them there are follows
 * from its size. It is all zeros at the first call, and keeps what a call leaves in it. */

#include <stddef.h>
#include <stdint.h>

/* The largest n for which n + n + n * n floats fit. */
static size_t order_of(size_t bytes)
{
    size_t floats = bytes / sizeof(float), n = 0;
    while ((n + 1) * (n + 1) + 2 * (n + 1) <= floats)
        n++;
    return n;
}

/* Called once for every touch. `pass` counts the calls from 0. */
void matrix_vector(void *memory, size_t bytes, uint64_t pass)
{
    static size_t known_bytes, n;
    if (bytes != known_bytes) {
        n = order_of(bytes);
        known_bytes = bytes;
    }
    float *x = memory, *y = x + n, *a = y + n;
    if (pass == 0) {
        for (size_t i = 0; i < n; i++)
            x[i] = (float)(i % 3);
        for (size_t i = 0; i < n * n; i++)
            a[i] = (float)(i % 7);
    }
    for (size_t row = 0; row < n; row++) {
        float sum = 0;
        for (size_t column = 0; column < n; column++)
            sum += a[row * n + column] * x[column];
        y[row] = sum;
    }
}

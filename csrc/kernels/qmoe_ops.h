/*
 * qmoe_ops.h: the arithmetic of kernel qmoe, for what every CPU has and for AVX2, chosen when the kernel is set up.
 *
 * Most x86-64 machines have AVX2, and numpy, which this kernel is measured against, uses it; but a compiler that is not
 * told so may use SSE2 only. On arm64 the first form is NEON. -DQMOE_BASELINE leaves AVX2 out.
 */
#ifndef QMOE_OPS_H
#define QMOE_OPS_H
#include <stddef.h>
#include <stdint.h>

#include "qmoe_half.h"

#define QMOE_CHUNK 64  /* output rows that a thread does at a time */
#define QMOE_TOKENS 48 /* tokens that it does at a time: a multiple of 3 */

struct qmoe_ops {
    void (*dequantise4)(float *restrict row, const uint8_t *restrict packed, size_t count, float scale);
    void (*dequantise8)(float *restrict row, const uint8_t *restrict packed, size_t count, float scale);
    void (*multiply)(float product[3][4], const float *const token[3], const float *restrict rows, size_t count);
    void (*exp)(float *values, size_t count);
    void (*swiglu)(float *restrict gate, const float *restrict linear, size_t count);
    void (*add_weighted)(float *restrict sum, const float *restrict values, float weight, size_t count);
    void (*load_half)(float *restrict to, const uint16_t *restrict from, size_t count);
    void (*store_half)(uint16_t *restrict to, const float *restrict from, size_t count);
};

#define QMOE_LANES 4
#define QMOE_NAME(x) qmoe_##x
#define QMOE_TARGET
#include "qmoe_vector.h"

#if defined(__x86_64__) && !defined(QMOE_BASELINE)
#define QMOE_LANES 8
#define QMOE_NAME(x) qmoe_avx2_##x
#define QMOE_TARGET __attribute__((target("avx2,fma,f16c")))
#include "qmoe_vector.h"

static inline const struct qmoe_ops *qmoe_choose_ops(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &qmoe_avx2_ops : &qmoe_ops;
}
#else
static inline const struct qmoe_ops *qmoe_choose_ops(void) { return &qmoe_ops; }
#endif

#endif

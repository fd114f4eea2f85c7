/*
 * qmoe_vector.h: the arithmetic of kernel qmoe on vectors of QMOE_LANES floats. No include guard: qmoe_ops.h includes
 * it once for each width, with QMOE_NAME(x) naming the functions and QMOE_TARGET the instructions that they may use.
 *
 * Loops over vectors are written out, so that -O2 makes the same of them in gcc and clang. Rows lie one after the other
 * and are a multiple of 16 numbers long. No vector is passed by value: how that is done depends on the target.
 */
typedef float QMOE_NAME(reals) __attribute__((vector_size(4 * QMOE_LANES), aligned(4), may_alias));
typedef int32_t QMOE_NAME(ints) __attribute__((vector_size(4 * QMOE_LANES), aligned(4), may_alias));
#define OPERATION(name) QMOE_TARGET static void QMOE_NAME(name)
#define REALS(at) (*(QMOE_NAME(reals) *)(at))
#define CONST_REALS(at) (*(const QMOE_NAME(reals) *)(at))

#if QMOE_LANES == 4
#define FOUR_EACH(a, b) {a, a, a, a}
#define REPEATED(a, b, c, d) {a, b, c, d}
#else
#define FOUR_EACH(a, b) {a, a, a, a, b, b, b, b}
#define REPEATED(a, b, c, d) {a, b, c, d, a, b, c, d}
#endif

/*
 * Four weights lie in a word, the first in its lowest bits. Each lane masks its own out where it is, and multiplies by
 * the power of two that takes it down, all of which is exact: not every CPU can shift each lane by its own count. Then
 * less what stands for 0, times the scale.
 */
#define DEQUANTISE()                                                                                                 \
    for (i = 0; i < count; i += QMOE_LANES, packed += sizeof word) {                                                 \
        memcpy(word, packed, sizeof word);                                                                           \
        QMOE_NAME(ints) words = FOUR_EACH((int32_t)word[0], (int32_t)word[QMOE_LANES / 4 - 1]);                      \
        words = (words & mask) ^ flip;                                                                               \
        REALS(row + i) = (__builtin_convertvector(words, QMOE_NAME(reals)) * down - zero) * scale;                   \
    }

OPERATION(dequantise4)(float *restrict row, const uint8_t *restrict packed, size_t count, float scale) {
    const QMOE_NAME(ints) mask = REPEATED(0xf, 0xf0, 0xf00, 0xf000), flip = {0};
    const QMOE_NAME(reals) down = REPEATED(1.0f, 0x1p-4f, 0x1p-8f, 0x1p-12f), zero = REPEATED(8.0f, 8.0f, 8.0f, 8.0f);
    uint16_t word[QMOE_LANES / 4];
    size_t i;
    DEQUANTISE()
}

/* The highest byte of a word has the sign bit of an int: flipped, it is the weight less 128 already. */
OPERATION(dequantise8)(float *restrict row, const uint8_t *restrict packed, size_t count, float scale) {
    const QMOE_NAME(ints) mask = REPEATED(0xff, 0xff00, 0xff0000, -0x1000000), flip = REPEATED(0, 0, 0, INT32_MIN);
    const QMOE_NAME(reals) down = REPEATED(1.0f, 0x1p-8f, 0x1p-16f, 0x1p-24f);
    const QMOE_NAME(reals) zero = REPEATED(128.0f, 128.0f, 128.0f, 0.0f);
    uint32_t word[QMOE_LANES / 4];
    size_t i;
    DEQUANTISE()
}

/* Adds to the sums of one token: its input times each of the four rows. */
#define SUMS(t) sum##t##0 = {0}, sum##t##1 = {0}, sum##t##2 = {0}, sum##t##3 = {0}
#define ADD(t)                                                        \
    do {                                                              \
        QMOE_NAME(reals) input = CONST_REALS(token[t] + i);           \
        sum##t##0 += input * row0;                                    \
        sum##t##1 += input * row1;                                    \
        sum##t##2 += input * row2;                                    \
        sum##t##3 += input * row3;                                    \
    } while (0)
#define KEEP(t)                        \
    do {                               \
        REALS(lanes[t][0]) = sum##t##0; \
        REALS(lanes[t][1]) = sum##t##1; \
        REALS(lanes[t][2]) = sum##t##2; \
        REALS(lanes[t][3]) = sum##t##3; \
    } while (0)

/* product[t][r]: the inner product of token t and row r of four, each `count` long. */
OPERATION(multiply)(float product[3][4], const float *const token[3], const float *restrict rows, size_t count) {
    QMOE_NAME(reals) SUMS(0);
    QMOE_NAME(reals) SUMS(1);
    QMOE_NAME(reals) SUMS(2);
    float lanes[3][4][QMOE_LANES];
    size_t i, t, r, lane;
    for (i = 0; i < count; i += QMOE_LANES) {
        QMOE_NAME(reals) row0 = CONST_REALS(rows + i), row1 = CONST_REALS(rows + count + i);
        QMOE_NAME(reals) row2 = CONST_REALS(rows + 2 * count + i), row3 = CONST_REALS(rows + 3 * count + i);
        ADD(0);
        ADD(1);
        ADD(2);
    }
    KEEP(0);
    KEEP(1);
    KEEP(2);
    for (t = 0; t < 3; t++) {
        for (r = 0; r < 4; r++) {
            float sum = 0.0f;
            for (lane = 0; lane < QMOE_LANES; lane += 4) {
                const float *four = &lanes[t][r][lane];
                sum += (four[0] + four[1]) + (four[2] + four[3]);
            }
            product[t][r] = sum;
        }
    }
}

/*
 * Each value's exponential, within a few units in the last place; 0 below -87.3, infinite above 88.7, NaN stays. e^x is
 * 2^n e^r with n the whole number nearest to x / ln 2; e^r is its series up to r^7, |r| being at most ln 2 / 2. 2^n is
 * made of two factors, as n may be 128.
 */
OPERATION(exp)(float *values, size_t count) {
    const float to_whole = 12582912.0f; /* 1.5 * 2^23: adding it leaves no bits for a fraction */
    size_t i;
    for (i = 0; i < count; i += QMOE_LANES) {
        QMOE_NAME(reals) x = REALS(values + i), n, r, sum, first, second;
        QMOE_NAME(ints) over = x > 88.722839f, under = x < -87.336544f, ok = (x == x) & ~over & ~under, whole, half;
        QMOE_NAME(reals) safe = (QMOE_NAME(reals))((QMOE_NAME(ints))x & ok);
        n = safe * 1.44269504f + to_whole;
        n -= to_whole;
        r = safe - n * 0.693359375f + n * 2.12194440e-4f;
        sum = r * 1.98412698e-4f + 1.38888889e-3f;
        sum = sum * r + 8.33333333e-3f;
        sum = sum * r + 4.16666667e-2f;
        sum = sum * r + 1.66666667e-1f;
        sum = sum * r + 0.5f;
        sum = sum * r * r + r + 1.0f;
        whole = __builtin_convertvector(n, QMOE_NAME(ints));
        half = whole >> 1;
        first = (QMOE_NAME(reals))((half + 127) << 23);
        second = (QMOE_NAME(reals))((whole - half + 127) << 23);
        sum = sum * first * second;
        whole = ((QMOE_NAME(ints))sum & ok) | (over & 0x7f800000) | ((QMOE_NAME(ints))x & ~ok & ~over & ~under);
        REALS(values + i) = (QMOE_NAME(reals))whole;
    }
}

/* Takes `with` wherever the comparison with a number holds, which it never does for NaN. */
#define REPLACE(values, comparison, with)                                                                         \
    do {                                                                                                          \
        QMOE_NAME(ints) there = (values)comparison (with);                                                        \
        QMOE_NAME(reals) other = (QMOE_NAME(reals)){0} + (with);                                                  \
        (values) = (QMOE_NAME(reals))(((QMOE_NAME(ints))(values) & ~there) | ((QMOE_NAME(ints))other & there));   \
    } while (0)

/* gate = gate / (1 + e^(-1.702 gate)) * (linear + 1), with gate at most 7 and linear from -7 to 7; NaN stays. */
OPERATION(swiglu)(float *restrict gate, const float *restrict linear, size_t count) {
    float power[QMOE_CHUNK];
    size_t i;
    for (i = 0; i < count; i += QMOE_LANES) {
        QMOE_NAME(reals) value = CONST_REALS(gate + i);
        REPLACE(value, >, 7.0f);
        REALS(gate + i) = value;
        REALS(power + i) = value * -1.702f;
    }
    QMOE_NAME(exp)(power, count);
    for (i = 0; i < count; i += QMOE_LANES) {
        QMOE_NAME(reals) up = CONST_REALS(linear + i);
        REPLACE(up, >, 7.0f);
        REPLACE(up, <, -7.0f);
        REALS(gate + i) = REALS(gate + i) / (CONST_REALS(power + i) + 1.0f) * (up + 1.0f);
    }
}

OPERATION(add_weighted)(float *restrict sum, const float *restrict values, float weight, size_t count) {
    size_t i;
    for (i = 0; i < count; i += QMOE_LANES) {
        REALS(sum + i) += CONST_REALS(values + i) * weight;
    }
}

/* Numbers as they lie in memory, to float and back. */
OPERATION(load_half)(float *restrict to, const uint16_t *restrict from, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        to[i] = qmoe_from_half(from[i]);
    }
}

OPERATION(store_half)(uint16_t *restrict to, const float *restrict from, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        to[i] = qmoe_to_half(from[i]);
    }
}

static const struct qmoe_ops QMOE_NAME(ops) = {
    QMOE_NAME(dequantise4), QMOE_NAME(dequantise8), QMOE_NAME(multiply), QMOE_NAME(exp), QMOE_NAME(swiglu),
    QMOE_NAME(add_weighted), QMOE_NAME(load_half), QMOE_NAME(store_half),
};

#undef OPERATION
#undef REALS
#undef CONST_REALS
#undef DEQUANTISE
#undef FOUR_EACH
#undef REPEATED
#undef SUMS
#undef ADD
#undef KEEP
#undef REPLACE
#undef QMOE_NAME
#undef QMOE_LANES
#undef QMOE_TARGET

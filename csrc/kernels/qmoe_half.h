/*
 * qmoe_half.h: 16-bit floating point as it lies in memory (IEEE 754 binary16), to and from float.
 *
 * `_Float16` where the compiler has it (gcc 12 and clang 15 on x86-64, both on arm64), whose conversions are
 * instructions where the CPU has them; else, or with -DQMOE_SOFTWARE_HALF, the conversion below, which is slower. The
 * two agree bit for bit, but for the payload of a NaN. Rounding is to nearest, ties to even. Needs no libm.
 */
#ifndef QMOE_HALF_H
#define QMOE_HALF_H
#include <stdint.h>
#include <string.h>

#if defined(__FLT16_MAX__) && !defined(QMOE_SOFTWARE_HALF)
#define QMOE_HALF_BY "_Float16"
__extension__ typedef _Float16 qmoe_native_half;

static inline __attribute__((always_inline)) float qmoe_from_half(uint16_t bits) {
    qmoe_native_half half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

static inline __attribute__((always_inline)) uint16_t qmoe_to_half(float value) {
    qmoe_native_half half = (qmoe_native_half)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}
#else
#define QMOE_HALF_BY "software conversion"

static inline float qmoe_from_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, body = bits & 0x7fffu;
    uint32_t word;
    float value;
    if (body >= 0x7c00u) { /* infinite, or not a number */
        word = 0x7f800000u | (body & 0x3ffu) << 13;
    } else if (body >= 0x0400u) {
        word = (body << 13) + ((127u - 15u) << 23);
    } else { /* zero or subnormal: a multiple of 2^-24, which a float has exactly */
        value = (float)body * 0x1p-24f;
        memcpy(&word, &value, sizeof word);
    }
    word |= sign;
    memcpy(&value, &word, sizeof value);
    return value;
}

static inline uint16_t qmoe_to_half(float value) {
    uint32_t word, sign, body, rounded;
    memcpy(&word, &value, sizeof word);
    sign = word >> 16 & 0x8000u;
    body = word & 0x7fffffffu;
    if (body > 0x7f800000u) {
        rounded = 0x7e00u;
    } else if (body >= 0x47800000u) { /* 2^16 and more */
        rounded = 0x7c00u;
    } else if (body >= 0x38800000u) { /* 2^-14 and more: a normal number, or infinite by rounding */
        body -= (127u - 15u) << 23;
        rounded = (body + 0xfffu + (body >> 13 & 1u)) >> 13;
    } else { /* adding 2^-1 leaves the multiple of 2^-24 in the lowest bits, rounded by the addition */
        float shifted;
        memcpy(&shifted, &body, sizeof shifted);
        shifted += 0.5f;
        memcpy(&rounded, &shifted, sizeof rounded);
        rounded -= 0x3f000000u;
    }
    return (uint16_t)(sign | rounded);
}
#endif

#endif

/*
 * registry.h: the kernels and techniques of a built module. The build writes registry.c, which defines these, from the
 * list of files that it compiles; kernels and techniques are found by name, so their order does not matter.
 */
#ifndef LIVETRAP_REGISTRY_H
#define LIVETRAP_REGISTRY_H
#ifndef LIVETRAP_KERNEL
#define LIVETRAP_KERNEL
#endif
#include <livetrap.h>

extern const struct lt_kernel *const lt_kernels[];
extern const size_t lt_kernels_total;
extern const struct lt_technique *const lt_techniques[];
extern const size_t lt_techniques_total;

#endif

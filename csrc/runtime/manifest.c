/*
 * manifest.c: what a built module has to offer, read out of its registry.
 */
#include "registry.h"
#include "team.h"

int64_t lt_param_least(const struct lt_param *param) { return param->choices != NULL ? 0 : param->least; }

int64_t lt_param_most(const struct lt_param *param) {
    int64_t places = 0;
    const char *at;
    if (param->choices == NULL) {
        return param->most;
    }
    for (at = param->choices; *at != '\0'; at++) {
        places += *at == '|';
    }
    return places;
}

size_t lt_kernel_count(void) { return lt_kernels_total; }

const char *lt_kernel_name(size_t kernel) { return kernel < lt_kernels_total ? lt_kernels[kernel]->name : NULL; }

const char *lt_kernel_summary(size_t kernel) { return kernel < lt_kernels_total ? lt_kernels[kernel]->summary : NULL; }

int lt_kernel_uses_technique(size_t kernel) {
    return kernel < lt_kernels_total && lt_kernels[kernel]->uses_technique != 0;
}

size_t lt_kernel_param_count(size_t kernel) {
    return kernel < lt_kernels_total ? lt_kernels[kernel]->param_count : 0;
}

int lt_kernel_param(size_t kernel, size_t place, struct lt_param_info *info) {
    const struct lt_param *param;
    if (place >= lt_kernel_param_count(kernel)) {
        return 0;
    }
    param = &lt_kernels[kernel]->params[place];
    info->name = param->name;
    info->summary = param->summary;
    info->choices = param->choices;
    info->least = lt_param_least(param);
    info->most = lt_param_most(param);
    info->fallback = param->fallback;
    return 1;
}

size_t lt_technique_count(void) { return lt_techniques_total; }

const char *lt_technique_name(size_t technique) {
    return technique < lt_techniques_total ? lt_techniques[technique]->name : NULL;
}

const char *lt_technique_summary(size_t technique) {
    return technique < lt_techniques_total ? lt_techniques[technique]->summary : NULL;
}

const char *lt_technique_unavailable(size_t technique) {
    if (technique >= lt_techniques_total || lt_techniques[technique]->unavailable == NULL) {
        return NULL;
    }
    return lt_techniques[technique]->unavailable();
}

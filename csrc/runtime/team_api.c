/*
 * team_api.c: what a kernel asks its team and tells it.
 */
#include <stdarg.h>
#include <stdio.h>

#include "team.h"

/* The first to say what came of it wins; the message is in the page at once, in case the trial never ends. */
static void say(struct lt_team *team, enum lt_result outcome, const char *format, va_list arguments) {
    uint32_t none = LT_RESULT_NONE;
    if (__atomic_compare_exchange_n(&team->outcome, &none, (uint32_t)outcome, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        vsnprintf(team->message, sizeof team->message, format, arguments);
        if (team->page != NULL) {
            memcpy(team->page->message, team->message, sizeof team->message);
        }
    }
}

#define SAY(outcome)                          \
    do {                                      \
        va_list arguments;                    \
        va_start(arguments, format);          \
        say(team, outcome, format, arguments); \
        va_end(arguments);                    \
    } while (0)

void lt_wrong(struct lt_team *team, const char *format, ...) { SAY(LT_RESULT_WRONG); }
void lt_skip(struct lt_team *team, const char *format, ...) { SAY(LT_RESULT_SKIPPED); }
void lt_error(struct lt_team *team, const char *format, ...) { SAY(LT_RESULT_ERROR); }

uint32_t lt_team_size(const struct lt_team *team) { return team->trial->threads; }
uint64_t lt_team_seed(const struct lt_team *team) { return team->trial->seed; }
int lt_team_silent(const struct lt_team *team) { return team->silent; }

const struct lt_param *lt_param_find(const struct lt_kernel *kernel, const char *name) {
    size_t i;
    for (i = 0; i < kernel->param_count; i++) {
        if (strcmp(kernel->params[i].name, name) == 0) {
            return &kernel->params[i];
        }
    }
    return NULL;
}

int64_t lt_team_param(struct lt_team *team, const char *name) {
    const struct lt_param *param = lt_param_find(team->kernel, name);
    size_t i;
    if (param == NULL) {
        lt_error(team, "kernel %s asks for a parameter %s that it does not declare", team->kernel->name, name);
        return 0;
    }
    for (i = 0; i < team->trial->argument_count; i++) {
        if (strcmp(team->trial->arguments[i].name, name) == 0) {
            return team->trial->arguments[i].value;
        }
    }
    return param->fallback;
}

void lt_team_wait(struct lt_team *team, uint32_t index, uint64_t site) {
    if (team->silent) {
        lt_jittered();
        team->technique->wait(team->technique_state, index);
        lt_jittered();
        return;
    }
    lt_wait_begin(site, team->technique->kind);
    team->technique->wait(team->technique_state, index);
    lt_wait_end();
}

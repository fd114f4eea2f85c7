/*
 * trial.c: one trial, from what was asked for to its result.
 */
#include "trial.h"

#include "registry.h"
#include "team.h"

static char last_message[LT_MESSAGE_BYTES];

const char *lt_trial_message(void) { return last_message; }

static void check_arguments(struct lt_team *team) {
    size_t i;
    for (i = 0; i < team->trial->argument_count; i++) {
        const struct lt_argument *argument = &team->trial->arguments[i];
        const struct lt_param *param = lt_param_find(team->kernel, argument->name);
        if (param == NULL) {
            lt_error(team, "kernel %s has no parameter %s", team->kernel->name, argument->name);
        } else if (argument->value < lt_param_least(param) || argument->value > lt_param_most(param)) {
            lt_error(team, "%s of kernel %s is from %lld to %lld, not %lld", param->name, team->kernel->name,
                     (long long)lt_param_least(param), (long long)lt_param_most(param), (long long)argument->value);
        }
    }
}

static void find_kernel(struct lt_team *team) {
    const char *name = team->trial->kernel != NULL ? team->trial->kernel : "";
    size_t i;
    for (i = 0; i < lt_kernels_total && team->kernel == NULL; i++) {
        team->kernel = strcmp(lt_kernels[i]->name, name) == 0 ? lt_kernels[i] : NULL;
    }
    if (team->kernel == NULL) {
        lt_error(team, "there is no kernel %s in this build", name);
    }
}

static void find_technique(struct lt_team *team) {
    const char *name = team->trial->technique != NULL ? team->trial->technique : "";
    const char *why;
    size_t i;
    for (i = 0; i < lt_techniques_total && team->technique == NULL; i++) {
        team->technique = strcmp(lt_techniques[i]->name, name) == 0 ? lt_techniques[i] : NULL;
    }
    if (team->technique == NULL) {
        lt_error(team, "there is no technique '%s' in this build, and kernel %s waits with one", name,
                 team->kernel->name);
        return;
    }
    why = team->technique->unavailable != NULL ? team->technique->unavailable() : NULL;
    if (why != NULL) {
        lt_skip(team, "technique %s: %s", name, why);
        return;
    }
    team->technique_state = team->technique->init(team->trial->threads);
    if (team->technique_state == NULL) {
        lt_error(team, "technique %s: no memory for %u threads", name, team->trial->threads);
    }
}

static void find_align(struct lt_team *team) {
    static const char *const names[] = {"none", "spin", "clock"};
    const char *name = team->trial->align != NULL ? team->trial->align : "none";
    int i;
    for (i = 0; i < 3; i++) {
        if (strcmp(names[i], name) == 0) {
            team->align = (enum lt_align)i;
            return;
        }
    }
    lt_error(team, "align is none, spin or clock, not %s", name);
}

/* Everything up to the first thread; what cannot be had is said. */
static void set_up(struct lt_team *team) {
    find_align(team);
    if (team->trial->threads == 0) {
        lt_error(team, "a team has at least one thread");
    }
    find_kernel(team);
    if (team->outcome != LT_RESULT_NONE) {
        return;
    }
    check_arguments(team);
    team->silent = lt_param_find(team->kernel, "silent") != NULL && lt_team_param(team, "silent") != 0;
    team->members = (struct lt_member *)calloc(team->trial->threads, sizeof *team->members);
    if (team->members == NULL) {
        lt_error(team, "no memory for %u threads", team->trial->threads);
    }
    if (team->outcome == LT_RESULT_NONE && team->kernel->uses_technique) {
        find_technique(team);
    }
}

/* Result and message for the harness, and the exit status of lt_trial_run. */
static int conclude(struct lt_team *team) {
    static const int status[] = {0, 0, 1, 3, 4};
    if (team->outcome == LT_RESULT_NONE) {
        team->outcome = LT_RESULT_RIGHT;
    }
    memcpy(last_message, team->message, sizeof last_message);
    if (team->page != NULL) {
        LT_STORE(team->page->finished_ns, lt_now_ns());
        __atomic_store_n(&team->page->result, team->outcome, __ATOMIC_RELEASE);
    }
    return status[team->outcome];
}

/* The page, if there is one; its header says who the probe is. A page that came after the first beat is found too. */
static struct lt_page_header *attach(uint32_t threads) {
    pthread_once(&lt_process.once, lt_process_attach);
    if (lt_process.page == NULL) {
        lt_process_attach();
    }
    if (lt_process.page != NULL) {
        LT_STORE(lt_process.page->probe_tid, lt_thread_id());
        LT_STORE(lt_process.page->team, threads);
        __atomic_store_n(&lt_process.page->probe_pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
    }
    return lt_process.page;
}

int lt_trial_run(const struct lt_trial *trial) {
    struct lt_team team;
    memset(&team, 0, sizeof team);
    team.trial = trial;
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.changed, NULL);
    team.page = attach(trial->threads);
    lt_jitter_prepare(trial->jitter_us, trial->seed);
    set_up(&team);
    if (team.outcome == LT_RESULT_NONE) {
        team.kernel_state = team.kernel->setup(&team);
        if (team.outcome == LT_RESULT_NONE) {
            lt_team_run(&team);
        }
        team.kernel->finish(&team, team.kernel_state);
    }
    if (team.technique_state != NULL) {
        team.technique->destroy(team.technique_state);
    }
    free(team.members);
    pthread_cond_destroy(&team.changed);
    pthread_mutex_destroy(&team.lock);
    return conclude(&team);
}

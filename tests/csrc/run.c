/*
 * run: one trial from the command line, for tests of the C side alone.
 *
 *     run KERNEL TECHNIQUE THREADS ALIGN [@cpu=N] [@jitter=US] [NAME=VALUE ...]
 *
 * A technique of "-" is none; choices are given by name or number; @cpu puts all threads on one CPU.
 * Prints "RESULT MESSAGE" and exits with the number that lt_trial_run returned; 2: it could not read its arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../csrc/runtime/trial.h"

#define ARGUMENTS 16

/* The place of `word` in "one|other", or its number. */
static int64_t value_of(const char *choices, const char *word) {
    int64_t place = 0;
    size_t length = strlen(word);
    while (choices != NULL) {
        if (strncmp(choices, word, length) == 0 && (choices[length] == '|' || choices[length] == '\0')) {
            return place;
        }
        choices = strchr(choices, '|');
        choices = choices != NULL ? choices + 1 : NULL;
        place++;
    }
    return strtoll(word, NULL, 10);
}

static const char *choices_of(const char *kernel, const char *name) {
    struct lt_param_info info;
    size_t i, j;
    for (i = 0; i < lt_kernel_count(); i++) {
        for (j = 0; strcmp(lt_kernel_name(i), kernel) == 0 && lt_kernel_param(i, j, &info); j++) {
            if (strcmp(info.name, name) == 0) {
                return info.choices;
            }
        }
    }
    return NULL;
}

static uint64_t *pin_all(struct lt_trial *trial, unsigned long cpu) {
    size_t i, words = cpu / 64 + 1;
    uint64_t *masks = (uint64_t *)calloc(trial->threads * words, sizeof *masks);
    for (i = 0; masks != NULL && i < trial->threads; i++) {
        masks[i * words + cpu / 64] = (uint64_t)1 << cpu % 64;
    }
    trial->cpu_masks = masks;
    trial->mask_words = masks != NULL ? words : 0;
    return masks;
}

int main(int count, char **words) {
    struct lt_argument arguments[ARGUMENTS];
    struct lt_trial trial;
    uint64_t *masks = NULL;
    int i, status;
    memset(&trial, 0, sizeof trial);
    if (count < 5 || count - 5 > ARGUMENTS) {
        return 2;
    }
    trial.kernel = words[1];
    trial.technique = strcmp(words[2], "-") == 0 ? NULL : words[2];
    trial.threads = (uint32_t)strtoul(words[3], NULL, 10);
    trial.align = words[4];
    trial.seed = 7;
    trial.arguments = arguments;
    for (i = 5; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (equals == NULL) {
            return 2;
        }
        *equals = '\0';
        if (strcmp(words[i], "@cpu") == 0) {
            masks = pin_all(&trial, strtoul(equals + 1, NULL, 10));
            continue;
        }
        if (strcmp(words[i], "@jitter") == 0) {
            trial.jitter_us = (uint32_t)strtoul(equals + 1, NULL, 10);
            continue;
        }
        arguments[trial.argument_count].name = words[i];
        arguments[trial.argument_count++].value = value_of(choices_of(trial.kernel, words[i]), equals + 1);
    }
    status = lt_trial_run(&trial);
    free(masks);
    printf("%d %s\n", status, lt_trial_message());
    return status;
}

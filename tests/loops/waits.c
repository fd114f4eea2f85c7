/* Loops for the tests of livetrap.loops: one function each, its kind in the table of test_compiled.py. */
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

int flag, other, go_on;
__attribute__((visibility("hidden"))) char hidden;
atomic_int ready, lock_word, first_word, second_word, sequence;
long total, table[64];
struct node {
    struct node *next;
} nodes[4];
extern void step(void);
extern int clock_gettime(int which, void *into);

#if defined(__x86_64__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() __asm__ volatile("yield")
#endif
#define KEEP __attribute__((noinline))
#define LOAD(word) atomic_load_explicit(&(word), memory_order_acquire)

KEEP static void relax(void) { PAUSE(); }
KEEP static int is_ready(atomic_int *word) { return LOAD(*word); }

void plain(void) { while (!flag) {} }
void plain_argument(int *word) { while (!*word) {} }
void hidden_flag(void) { while (!*(volatile char *)&hidden) {} }
void volatile_flag(void) { while (!*(volatile int *)&flag) {} }
void acquire(void) { while (!LOAD(ready)) {} }
void acquire_argument(atomic_int *word) { while (LOAD(*word) != 3) {} }
void with_pause(void) { while (!LOAD(ready)) PAUSE(); }
void with_yield(void) { while (!LOAD(ready)) sched_yield(); }
void with_relax(void) { while (!LOAD(ready)) relax(); }
void with_getter(void) { while (!is_ready(&ready)) relax(); }
void two_words(void) { while (!LOAD(first_word) && !LOAD(second_word)) PAUSE(); }
void either_word(void) { while (!(LOAD(first_word) == 7 || LOAD(second_word) == 9)) {} }
void difference(void) { while (LOAD(first_word) < LOAD(second_word) - LOAD(sequence)) PAUSE(); }
void compare_and_swap(void)
{
    int expected;
    do {
        expected = 0;
    } while (!atomic_compare_exchange_weak(&lock_word, &expected, 1));
}
void compare_and_swap_yield(void)
{
    int expected = 0;
    while (!atomic_compare_exchange_strong(&lock_word, &expected, 1)) {
        expected = 0;
        sched_yield();
    }
}
void test_and_set(void) { while (atomic_exchange(&lock_word, 1)) PAUSE(); }
void test_test_and_set(void)
{
    for (;;) {
        if (!atomic_load_explicit(&lock_word, memory_order_relaxed) && !atomic_exchange(&lock_word, 1)) return;
        PAUSE();
    }
}
void backoff(void)
{
    for (int delay = 1; !LOAD(ready); delay = delay < 1024 ? delay * 2 : delay)
        for (int i = 0; i < delay; i++) PAUSE();
}
void spin_then_yield(void)
{
    int n = 0;
    while (!LOAD(ready)) {
        if (++n < 8) PAUSE();
        else {
            sched_yield();
            n = 0;
        }
    }
}
void take_or_yield(void)
{
    for (;;) {
        for (int i = 0; i < 2; i++) {
            int expected = 0;
            if (atomic_compare_exchange_strong(&lock_word, &expected, 1)) return;
            PAUSE();
        }
        sched_yield();
    }
}
void seen_before(void)
{
    for (;;) {
        int seen = LOAD(first_word);
        for (int i = 0; i < 1000 && !LOAD(ready); i++) PAUSE();
        if (seen) return;
    }
}
void entered_twice(long which)
{
    if (which & 1) goto middle;
    for (;;) {
        while (!LOAD(ready)) PAUSE();
        step();
    middle:
        step();
        if (go_on) return;
    }
}
void yield_now_and_then(void)
{
    for (unsigned spins = 0; !LOAD(ready); spins++) {
        if (spins % 64 == 63) sched_yield();
        else PAUSE();
    }
}
void counted_in_memory(void) { while (!LOAD(ready)) total++; }
void sequence_reader(void)
{
    int before;
    long seen;
    do {
        while ((before = LOAD(sequence)) & 1) PAUSE();
        seen = *(volatile long *)&total;
    } while (LOAD(sequence) != before);
    table[0] = seen;
}
void forever(void) { for (;;) __asm__ volatile(""); }
void forever_counting(void) { for (unsigned long n = 0;; n++) __asm__ volatile("" : "+r"(n)); }

/* These end, or may. */
void counting(void) { for (volatile int i = 0; i < 2000000000; i++) {} }
void counting_register(void) { for (long i = 0; i < 2000000000000; i++) __asm__ volatile("" : "+r"(i)); }
void bounded_spin(void) { for (int i = 0; i < 2000000000 && !LOAD(ready); i++) PAUSE(); }
size_t chase(struct node *at)
{
    size_t n = 0;
    while (at) {
        at = at->next;
        n++;
    }
    return n;
}
uint64_t hash(void)
{
    uint64_t value = 88172645463325252u;
    for (long i = 0; i < 2000000000000; i++) value = value * 31 + 7;
    total = (long)value;
    return value;
}
void gives_up(void)
{
    while (!LOAD(ready)) {
        for (int i = 0; i < 8 && !LOAD(first_word); i++) PAUSE();
        step();
    }
}
void sums_again(void)
{
    long sum = 0;
    while (!LOAD(ready))
        for (int i = 0; i < 64; i++) sum += ((volatile long *)table)[i];
    total = sum;
}
void searches_again(void)
{
    while (!LOAD(ready)) {
        volatile char *at = (volatile char *)table, *end = at + sizeof table;
        while (at < end && *at != 3) at++;
    }
}
void divides(void)
{
    for (unsigned n = 4000000000u;; n--) {
        unsigned part = 1000 / n;
        __asm__ volatile("" : "+r"(part), "+r"(n));
    }
}
KEEP static void count(void) { *(volatile long *)&total = 1; }
void calls_what_writes(void) { while (!LOAD(ready)) count(); }
void steps(void) { while (!go_on) step(); }
void steps_for_ever(void) { for (;;) step(); }
void sets_its_flag(void)
{
    volatile int *word = &flag;
    for (int n = 0; !*word; n++) *word = n > 1000000000;
}
void timed(void)
{
    long now[2];
    do {
        clock_gettime(1, now);
    } while (!LOAD(ready) && now[0] < 1000);
}
void work_until_told(void)
{
    uint64_t value = 1;
    while (!LOAD(ready)) value = value * 6364136223846793005u + 1442695040888963407u;
    total = (long)value;
}
void sums_until_told(void)
{
    long sum = 0;
    for (unsigned n = 0; !LOAD(ready); n++) sum += ((volatile long *)table)[n & 63];
    total = sum;
}
void writes_until_told(void) { for (unsigned n = 0; !LOAD(ready); n++) ((volatile long *)table)[n & 63] = n; }
void adds_to_what_it_polls(void) { while (atomic_fetch_add(&ready, 1) != 2000000000) {} }
void increments(atomic_int *word) { atomic_fetch_add(word, 1); }
size_t length(const char *text)
{
    const char *at = text;
    while (*at) {
        at++;
        __asm__ volatile("" : "+r"(at));
    }
    return (size_t)(at - text);
}
void through_pointer(void (*volatile *call)(void)) { while (!LOAD(ready)) (*call)(); }
void relays(void) { while (!LOAD(ready)) *(volatile long *)&total = *(volatile int *)&other; }
void serves(void)
{
    for (;;) {
        while (LOAD(first_word) == 0) PAUSE();
        atomic_store(&first_word, 0);
        atomic_store(&second_word, 1);
    }
}

/* A clock for others, made of a count. */
void tells_by_count(void)
{
    unsigned long n = 0;
    while (!LOAD(ready))
        if (++n == 9000000000ul) *(volatile int *)&go_on = 1;
}

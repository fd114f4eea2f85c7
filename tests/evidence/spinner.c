/* Threads that hang: one in a loop that the compiler made a jump to itself, one in an inlined poll, main in a join. */
#include <pthread.h>
#include <stdio.h>

static int flag;
static int other;

static void *wait_for_flag(void *argument)
{
    (void)argument;
    while (!flag) {
    }
    return NULL;
}

static inline void wait_for(int *word)
{
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE)) {
    }
}

static void *poll_other(void *argument)
{
    wait_for(argument);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, wait_for_flag, NULL);
    pthread_create(&threads[1], NULL, poll_other, &other);
    puts("ready");
    fflush(stdout);
    pthread_join(threads[0], NULL);
    flag = 1;
    return 0;
}

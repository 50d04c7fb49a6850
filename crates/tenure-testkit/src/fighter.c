/*
 * A child that does not want to end: it passes itself on by fork and exit, in sessions of its own,
 * faster than one looks. Every process of it writes down that it acted, and when.
 *
 *   fighter RECORD SECONDS FEAT...
 *
 * RECORD gets the number of acts and the boot clock's nanoseconds of the last one, and says until when
 * there is haste. Before it is told so, it only acts and rests. Then come its feats, and then it goes on
 * by fork and exit, without a rest as long as there is haste: not for ever, because every process that is
 * not buried takes a number from all others on the machine. SECONDS later all of it is over, whoever
 * loses. The feats:
 *
 *   stop    stops its parent
 *   kill    kills its parent
 *   trace   traces its parent, which then stops at every signal, and whose end nobody else hears of
 *   files   opens as many files as it may
 *   crowd   goes on as eight at once
 *   still   goes on as one process that ignores what can be ignored
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

struct record {
    uint64_t acts;
    uint64_t last;
    uint64_t haste;
};

static struct record *shared;
static uint64_t over;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void act(void) {
    uint64_t moment = now();
    __atomic_store_n(&shared->last, moment, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&shared->acts, 1, __ATOMIC_SEQ_CST);
    if (moment > over)
        _exit(0);
    if (moment > __atomic_load_n(&shared->haste, __ATOMIC_SEQ_CST))
        usleep(1000);
}

/* Whoever is left is a process that nobody has seen before. */
static void pass_on(void) {
    for (;;) {
        act();
        pid_t next = fork();
        if (next > 0)
            _exit(0);
        if (next == 0)
            setsid();
    }
}

static void stay(void) {
    for (;;)
        act();
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    int file = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct record)))
        return 2;
    shared = mmap(NULL, sizeof(struct record), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED)
        return 2;
    over = now() + (uint64_t)atoi(arguments[2]) * 1000000000u;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    /* Ignored, a child's end would leave no trace. */
    signal(SIGCHLD, SIG_DFL);
    while (!__atomic_load_n(&shared->haste, __ATOMIC_SEQ_CST))
        act();
    void (*go_on)(void) = pass_on;
    for (int at = 3; at < count; at++) {
        const char *feat = arguments[at];
        if (!strcmp(feat, "stop"))
            kill(getppid(), SIGSTOP);
        else if (!strcmp(feat, "kill"))
            kill(getppid(), SIGKILL);
        else if (!strcmp(feat, "trace"))
            ptrace(PTRACE_SEIZE, getppid(), 0, 0);
        else if (!strcmp(feat, "files"))
            while (dup(file) >= 0)
                ;
        else if (!strcmp(feat, "crowd"))
            for (int others = 0; others < 7 && fork(); others++)
                ;
        else if (!strcmp(feat, "still"))
            go_on = stay;
        else
            return 2;
    }
    go_on();
}

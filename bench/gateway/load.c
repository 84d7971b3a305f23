/* A closed loop of callers: each connection sends its next request when the last was answered.
 *
 * Every answer is checked: status 200, framed to its end (length or last chunk), the expected number
 * of tildes in its body, and for a stream "[DONE]" at its end. What is not so is an error and is in
 * no latency. Counted are the answers that end while it measures, also those asked for before: else
 * the slow would lose what was under way. Each "########" in the body becomes the request's own number, so that nothing that
 * stands between can answer from memory.
 *
 * A body file that begins with "#cycle COUNT LENGTH..." and a line end holds several bodies: each
 * connection sends them one after the other, again and again. "########" is then the number of the
 * cycle, and "@@@@@@@@" that of the connection, so that its history stays the same.
 *
 *     load PORT PATH BODY_FILE CONNECTIONS WARM_UP_S SECONDS plain|stream|acked [HEADER...]
 *
 * "acked" is a stream whose reader acknowledges at once what came. A server that leaves Nagle's
 * algorithm on sends its next small piece only then; other readers wait 40 ms for company.
 *
 * Prints one JSON object. Latencies are in microseconds: to the last byte, and to the first byte of
 * the body.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define GIVE_UP_NS 30000000000ULL
#define HEAD_ROOM 16384

enum framing { HEAD, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, LAST_CHUNK, TO_THE_END };

struct caller {
    int fd;
    size_t sent;
    uint64_t started, first_byte;
    int is_busy, is_connected;
    enum framing framing;
    char head[HEAD_ROOM];
    size_t head_length;
    int status, closes, step, is_waiting;
    unsigned long cycle;
    uint64_t left, line;
    int line_length;
    unsigned tildes;
    char tail[32];
    size_t tail_length;
    char *request;
};

struct samples {
    uint32_t *tenths;
    size_t count, room;
};

static struct sockaddr_in target;
static struct caller *callers;
static int poll_fd, is_stream, is_acked, most_callers;
static unsigned expected_tildes;
/* One request as it is sent, but for its marks. */
struct form {
    char *text;
    size_t length, body, mark_count, own_count;
    size_t *marks, *own;
};

static struct form *forms;
static int form_count = 1;
static size_t longest;
static unsigned long number, cycle, good, bad, started_over;
static uint64_t measure_from, measure_to;
static struct samples whole, first;
static char last_error[256];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void keep(struct samples *s, uint64_t ns) {
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 65536;
        if (!(s->tenths = realloc(s->tenths, s->room * sizeof *s->tenths))) die("realloc");
    }
    s->tenths[s->count++] = ns / 100;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double part(struct samples *s, double share) {
    if (!s->count) return 0;
    size_t at = s->count * share;
    return s->tenths[at < s->count ? at : s->count - 1] / 10.0;
}

static void connect_anew(struct caller *c) {
    int one = 1;
    if (c->fd >= 0) close(c->fd);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&target, sizeof target) && errno != EINPROGRESS)
        die("connect");
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &wanted)) die("epoll_ctl");
    c->is_connected = 0;
    c->is_busy = 0;
    c->is_waiting = 0;
}

/* Sends what the connection takes; the rest when it takes more. */
static void push(struct caller *c) {
    size_t length = forms[c->step].length;
    while (c->sent < length) {
        ssize_t n = send(c->fd, c->request + c->sent, length - c->sent, MSG_NOSIGNAL);
        if (n < 0) break;
        c->sent += n;
    }
    int is_waiting = c->sent < length;
    if (is_waiting == c->is_waiting) return;
    c->is_waiting = is_waiting;
    struct epoll_event wanted = {.events = EPOLLIN | (is_waiting ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &wanted);
}

static void ask(struct caller *c) {
    char digits[16];
    struct form *form = &forms[c->step];
    number++;
    if (!c->step) c->cycle = ++cycle;
    if (form_count > 1) memcpy(c->request, form->text, form->length);
    snprintf(digits, sizeof digits, "%08lu", c->cycle % 100000000);
    for (size_t i = 0; i < form->mark_count; i++) memcpy(c->request + form->marks[i], digits, 8);
    snprintf(digits, sizeof digits, "%08lu", (unsigned long)(c - callers) % 100000000);
    for (size_t i = 0; i < form->own_count; i++) memcpy(c->request + form->own[i], digits, 8);
    c->sent = c->head_length = c->tail_length = 0;
    c->tildes = c->status = c->closes = 0;
    c->framing = HEAD;
    c->first_byte = 0;
    c->is_busy = 1;
    c->started = now();
    push(c);
}

static int is_measured(uint64_t t) {
    return t >= measure_from && t <= measure_to;
}

static void fail(struct caller *c, const char *why) {
    if (is_measured(now())) bad++;
    snprintf(last_error, sizeof last_error, "%s (status %d, %u tildes)", why, c->status, c->tildes);
    connect_anew(c);
}

static int is_complete(struct caller *c) {
    if (c->status != 200 || c->tildes != expected_tildes) return 0;
    return !is_stream || memmem(c->tail, c->tail_length, "[DONE]", 6) != NULL;
}

static void answered(struct caller *c) {
    uint64_t t = now();
    if (!is_complete(c)) {
        fail(c, "not the answer that was expected");
        return;
    }
    if (is_measured(t)) {
        good++;
        keep(&whole, t - c->started);
        keep(&first, c->first_byte - c->started);
    }
    if (c->closes) {
        started_over++;
        connect_anew(c);
    } else if (t < measure_to) {
        c->step = (c->step + 1) % form_count;
        ask(c);
    } else {
        c->is_busy = 0;
    }
}

static void body(struct caller *c, const char *data, size_t length) {
    if (!c->first_byte && length) c->first_byte = now();
    unsigned found = 0;
    for (size_t i = 0; i < length; i++) found += data[i] == '~';
    c->tildes += found;
    if (length >= sizeof c->tail) {
        memcpy(c->tail, data + length - sizeof c->tail, sizeof c->tail);
        c->tail_length = sizeof c->tail;
        return;
    }
    size_t kept = c->tail_length + length > sizeof c->tail ? sizeof c->tail - length : c->tail_length;
    memmove(c->tail, c->tail + c->tail_length - kept, kept);
    memcpy(c->tail + kept, data, length);
    c->tail_length = kept + length;
}

static const char *header(struct caller *c, const char *name) {
    size_t wanted = strlen(name);
    for (char *at = strchr(c->head, '\n'); at; at = strchr(at, '\n')) {
        at++;
        if (strncasecmp(at, name, wanted)) continue;
        at += wanted;
        while (*at == ' ') at++;
        return at;
    }
    return NULL;
}

static void frame(struct caller *c) {
    const char *given;
    c->status = atoi(c->head + 9);
    given = header(c, "connection:");
    c->closes = given && !strncasecmp(given, "close", 5);
    if ((given = header(c, "transfer-encoding:")) && !strncasecmp(given, "chunked", 7)) {
        c->framing = CHUNK_SIZE;
        c->line = c->line_length = 0;
    } else if ((given = header(c, "content-length:"))) {
        c->framing = LENGTH;
        c->left = strtoull(given, NULL, 10);
    } else {
        c->framing = TO_THE_END;
        c->closes = 1;
    }
}

static size_t head(struct caller *c, const char *data, size_t length) {
    size_t room = HEAD_ROOM - 1 - c->head_length, before = c->head_length;
    size_t taken = length < room ? length : room;
    memcpy(c->head + c->head_length, data, taken);
    c->head_length += taken;
    c->head[c->head_length] = 0;
    char *end = strstr(c->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (!end) return taken;
    end[2] = 0;
    frame(c);
    return end + 4 - c->head - before;
}

static int hex(char each) {
    if (each >= '0' && each <= '9') return each - '0';
    each |= 32;
    return each >= 'a' && each <= 'f' ? each - 'a' + 10 : -1;
}

/* Reads what came; gives 1 when the answer is at its end, -1 when its framing is broken. */
static int took(struct caller *c, const char *data, size_t length) {
    size_t at = 0, n;
    while (at < length) {
        size_t rest = length - at;
        switch (c->framing) {
        case HEAD:
            at += head(c, data + at, rest);
            if (c->framing == HEAD && c->head_length == HEAD_ROOM - 1) return -1;
            if (c->framing == LENGTH && !c->left) return 1;
            break;
        case LENGTH:
            n = rest < c->left ? rest : c->left;
            body(c, data + at, n);
            at += n;
            if (!(c->left -= n)) return at == length ? 1 : -1;
            break;
        case CHUNK_SIZE:
            if (data[at] == '\n') {
                if (!c->line_length) return -1;
                c->left = c->line;
                c->framing = c->left ? CHUNK_DATA : LAST_CHUNK;
                c->line = c->line_length = 0;
            } else if (hex(data[at]) >= 0) {
                c->line = c->line * 16 + hex(data[at]);
                c->line_length++;
            } else if (data[at] != '\r') {
                return -1;
            }
            at++;
            break;
        case CHUNK_DATA:
            n = rest < c->left ? rest : c->left;
            body(c, data + at, n);
            at += n;
            if (!(c->left -= n)) c->framing = CHUNK_END;
            break;
        case CHUNK_END:
            if (data[at++] == '\n') c->framing = CHUNK_SIZE;
            break;
        case LAST_CHUNK:
            if (data[at++] == '\n') return at == length ? 1 : -1;
            break;
        case TO_THE_END:
            body(c, data + at, rest);
            at = length;
        }
    }
    return 0;
}

static void hear(struct caller *c) {
    static char buffer[262144];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    int one = 1;
    if (is_acked) setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        if (!c->is_busy) connect_anew(c);
        else if (n == 0 && c->framing == TO_THE_END) answered(c);
        else fail(c, n ? strerror(errno) : "closed before the end");
        return;
    }
    if (!c->is_busy) {
        fail(c, "bytes that nobody asked for");
        return;
    }
    int end = took(c, buffer, n);
    if (end < 0) fail(c, "broken framing");
    if (end > 0) answered(c);
}

static void attend(struct caller *c, uint32_t events) {
    if (!c->is_connected && events & EPOLLOUT) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poll_fd, EPOLL_CTL_MOD, c->fd, &wanted);
        c->is_connected = 1;
        if (!(events & (EPOLLERR | EPOLLHUP))) {
            if (now() < measure_to) ask(c);
            return;
        }
    } else if (events & EPOLLOUT && c->is_waiting) {
        push(c);
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) hear(c);
}

static size_t find_marks(struct form *form, const char *mark, size_t **found) {
    size_t count = 0, room = 0;
    char *at = form->text + form->body, *end = form->text + form->length;
    *found = NULL;
    while ((at = memmem(at, end - at, mark, 8))) {
        if (count == room) {
            room = room ? room * 2 : 64;
            if (!(*found = realloc(*found, room * sizeof **found))) die("realloc");
        }
        (*found)[count++] = at - form->text;
        at += 8;
    }
    return count;
}

static void make_form(struct form *form, char **given, int count, const char *text, size_t length) {
    form->text = malloc(length + 65536);
    int at = sprintf(form->text, "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%s\r\nuser-agent: bench\r\n"
                     "accept: */*\r\ncontent-type: application/json\r\n", given[2], given[1]);
    for (int i = 8; i < count; i++) at += sprintf(form->text + at, "%s\r\n", given[i]);
    at += sprintf(form->text + at, "content-length: %zu\r\n\r\n", length);
    form->body = at;
    memcpy(form->text + at, text, length);
    form->length = at + length;
    if (form->length > longest) longest = form->length;
    form->mark_count = find_marks(form, "########", &form->marks);
    form->own_count = find_marks(form, "@@@@@@@@", &form->own);
}

static void read_forms(char **given, int count) {
    FILE *file = fopen(given[3], "rb");
    if (!file) die(given[3]);
    fseek(file, 0, SEEK_END);
    size_t length = ftell(file);
    rewind(file);
    char *text = calloc(1, length + 1), *body = text;
    if (fread(text, 1, length, file) != length) die(given[3]);
    fclose(file);
    char *at = text;
    if (!strncmp(text, "#cycle ", 7)) {
        at += 7;
        form_count = strtol(at, &at, 10);
        body = strchr(text, '\n') + 1;
    }
    if (!(forms = calloc(form_count, sizeof *forms))) die("calloc");
    for (int i = 0; i < form_count; i++) {
        size_t size = body == text ? length : strtoul(at, &at, 10);
        make_form(&forms[i], given, count, body, size);
        body += size;
    }
    free(text);
}

static void shown(const char *name, struct samples *s, const char *after) {
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) sum += s->tenths[i];
    qsort(s->tenths, s->count, sizeof *s->tenths, by_size);
    printf("\"%s\":{\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"mean_us\":%.1f}%s",
           name, part(s, 0.5), part(s, 0.9), part(s, 0.99), part(s, 1),
           s->count ? sum / s->count / 10 : 0, after);
}

int main(int count, char **given) {
    if (count < 8) {
        fprintf(stderr, "usage: load PORT PATH BODY_FILE CONNECTIONS WARM_UP_S SECONDS plain|stream|acked"
                        " [HEADER...]\n");
        return 2;
    }
    most_callers = atoi(given[4]);
    is_acked = !strcmp(given[7], "acked");
    is_stream = is_acked || !strcmp(given[7], "stream");
    expected_tildes = is_stream ? 50 : 8;
    target = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(given[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    read_forms(given, count);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    callers = calloc(most_callers, sizeof *callers);
    uint64_t begun = now();
    // No cycle of an earlier run comes again: it could be remembered.
    cycle = begun / 1000;
    measure_from = begun + atof(given[5]) * 1e9;
    measure_to = measure_from + atof(given[6]) * 1e9;
    for (int i = 0; i < most_callers; i++) {
        callers[i].fd = -1;
        callers[i].request = malloc(longest);
        memcpy(callers[i].request, forms[0].text, forms[0].length);
        connect_anew(&callers[i]);
    }
    struct epoll_event ready[256];
    uint64_t looked = begun;
    for (;;) {
        int n = epoll_wait(poll_fd, ready, 256, 50);
        for (int i = 0; i < n; i++) attend(ready[i].data.ptr, ready[i].events);
        uint64_t t = now();
        if (t >= measure_to) break;
        if (t - looked < 100000000) continue;
        looked = t;
        for (int i = 0; i < most_callers; i++)
            if (callers[i].is_busy && t - callers[i].started > GIVE_UP_NS)
                fail(&callers[i], "no answer in time");
    }
    unsigned long waiting = 0;
    for (int i = 0; i < most_callers; i++) waiting += callers[i].is_busy;
    double seconds = (measure_to - measure_from) / 1e9;
    printf("{\"connections\":%d,\"mode\":\"%s\",\"seconds\":%.3f,\"requests\":%lu,\"sent\":%lu,"
           "\"errors\":%lu,\"reconnects\":%lu,\"unanswered\":%lu,\"per_s\":%.2f,\"last_error\":\"%s\",",
           most_callers, given[7], seconds, good, number, bad, started_over, waiting,
           good / seconds, last_error);
    shown("latency", &whole, ",");
    shown("first_byte", &first, "}\n");
    return 0;
}

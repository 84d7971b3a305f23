/* Paced streams through a gateway: the provider behind it and the callers before it, in one thread.

   paced PORT_FILE PATH BODY_FILE STREAMS EVENTS_A_SECOND SECONDS

   Prints the port of the provider, then waits for a line on stdin that holds the gateway's port and
   a header line or "-". Each event carries the time it was written at; each caller notes how much
   later it came. While the streams run, a new caller comes every 50 ms. Ends with one line of JSON. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 16384
#define BUFFER 65536
#define PROBE_NS 50000000LL

enum kind { NONE, LISTENING, PROVIDER, CALLER };

struct conn {
    enum kind kind;
    int is_probe, has_asked, is_done, is_streaming;
    int left;              /* events the provider has still to write */
    int64_t due, step;     /* when the next one is due */
    int64_t started, first; /* when a caller came, and when its first event did */
    size_t size;
    char data[BUFFER];
};

static struct conn *conns[MOST];
static int epoll_fd, rate, seconds, gateway_port;
static char *body, *path, extra[512];
static uint32_t *delays;
static size_t delay_count, delay_room;
static uint32_t firsts[MOST], probes[MOST];
static int first_count, probe_count, complete, probes_complete, failed;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static struct conn *watch(int fd, enum kind kind) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int one = 1;
    if (fd >= MOST) exit(3);
    conns[fd] = calloc(1, sizeof(struct conn));
    conns[fd]->kind = kind;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    return conns[fd];
}

static void drop(int fd) {
    close(fd);
    free(conns[fd]);
    conns[fd] = NULL;
}

static void put(int fd, const char *text) {
    /* Small and rare enough for the system's buffer; who does not read loses the stream. */
    if (write(fd, text, strlen(text)) < 0 && errno != EAGAIN) conns[fd]->left = 0;
}

static void put_chunk(int fd, const char *data) {
    char out[2048];
    snprintf(out, sizeof out, "%zx\r\n%s\r\n", strlen(data), data);
    put(fd, out);
}

static void write_event(int fd) {
    char out[512];
    snprintf(out, sizeof out,
             "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench\","
             "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"T%019lld\"},\"finish_reason\":null}]}\n\n",
             (long long)now_ns());
    put_chunk(fd, out);
}

static void end_stream(int fd) {
    put_chunk(fd,
              "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench\","
              "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
              "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"bench\","
              "\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9,\"total_tokens\":18}}\n\n"
              "data: [DONE]\n\n");
    put(fd, "0\r\n\r\n");
    conns[fd]->is_streaming = 0;
}

static void begin_stream(int fd, int is_probe) {
    struct conn *c = conns[fd];
    put(fd, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    c->is_streaming = 1;
    c->left = is_probe ? 1 : rate * seconds;
    c->step = 1000000000LL / rate;
    c->due = now_ns();
}

static void read_request(int fd, ssize_t got) {
    struct conn *c = conns[fd];
    c->size += got;
    c->data[c->size] = 0;
    char *end = strstr(c->data, "\r\n\r\n");
    char *length = strcasestr(c->data, "content-length:");
    if (!end || !length) return;
    size_t whole = end + 4 - c->data + atoi(length + 15);
    if (c->size < whole) return;
    int is_probe = strstr(c->data, "a-new-caller") != NULL;
    c->size = 0;
    begin_stream(fd, is_probe);
}

static void note_delay(int64_t delay) {
    if (delay_count == delay_room) {
        delay_room = delay_room ? 2 * delay_room : 1 << 16;
        delays = realloc(delays, delay_room * sizeof *delays);
    }
    delays[delay_count++] = delay / 1000;
}

static void read_events(int fd, ssize_t got) {
    struct conn *c = conns[fd];
    int64_t at = now_ns();
    c->size += got;
    c->data[c->size] = 0;
    char *from = c->data, *found;
    while ((found = strstr(from, "\"T0")) && found + 21 <= c->data + c->size) {
        int64_t written = atoll(found + 2);
        if (!c->first) {
            c->first = at;
            if (c->is_probe) probes[probe_count++] = (at - c->started) / 1000;
            else firsts[first_count++] = (at - c->started) / 1000;
        }
        if (!c->is_probe) note_delay(at - written);
        from = found + 21;
    }
    if (strstr(c->data, "[DONE]")) {
        if (!c->is_done) {
            c->is_done = 1;
            if (c->is_probe) probes_complete++;
            else complete++;
        }
    }
    size_t used = from - c->data, rest = c->size - used, keep = rest > 32 ? 32 : rest;
    memmove(c->data, c->data + c->size - keep, keep);
    c->size = keep;
}

static void call(int is_probe) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(gateway_port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    struct conn *c = watch(fd, CALLER);
    c->is_probe = is_probe;
    c->started = now_ns();
    connect(fd, (struct sockaddr *)&to, sizeof to);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

static void ask(int fd) {
    static char out[1 << 20];
    struct conn *c = conns[fd];
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event);
    c->has_asked = 1;
    char text[1 << 16];
    snprintf(text, sizeof text, body, c->is_probe ? "a-new-caller" : "a-long-stream", fd);
    snprintf(out, sizeof out,
             "POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n%s"
             "content-length: %zu\r\n\r\n%s", path, extra, strlen(text), text);
    put(fd, out);
}

static int smaller(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void tell(const char *name, uint32_t *found, size_t count) {
    qsort(found, count, sizeof *found, smaller);
    printf("\"%s\":{\"count\":%zu", name, count);
    if (count)
        printf(",\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u", found[count / 2],
               found[count * 99 / 100], found[count - 1]);
    printf("}");
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    path = argv[1];
    body = argv[2]; /* a format with the kind of caller and its number */
    int streams = atoi(argv[3]);
    rate = atoi(argv[4]);
    seconds = atoi(argv[5]);
    epoll_fd = epoll_create1(0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    if (bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 4096)) return 3;
    getsockname(listening, (struct sockaddr *)&at, &size);
    watch(listening, LISTENING);
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    char line[600], given[512] = "-";
    if (!fgets(line, sizeof line, stdin) || sscanf(line, "%d %511[^\n]", &gateway_port, given) < 1) return 2;
    if (strcmp(given, "-")) snprintf(extra, sizeof extra, "%.500s\r\n", given);
    for (int each = 0; each < streams; each++) call(0);
    int64_t begun = now_ns(), until = begun + (seconds + 30) * 1000000000LL, probe = begun + PROBE_NS;
    struct epoll_event events[1024];
    while (complete + failed < streams && now_ns() < until) {
        int ready = epoll_wait(epoll_fd, events, 1024, 1);
        for (int each = 0; each < ready; each++) {
            int fd = events[each].data.fd;
            struct conn *c = conns[fd];
            if (!c) continue;
            if (c->kind == LISTENING) {
                int fresh;
                while ((fresh = accept(fd, NULL, NULL)) >= 0) watch(fresh, PROVIDER);
                continue;
            }
            if (c->kind == CALLER && !c->has_asked && events[each].events & EPOLLOUT) ask(fd);
            if (!(events[each].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
            ssize_t got = read(fd, c->data + c->size, BUFFER - 1 - c->size);
            if (got <= 0) {
                if (got < 0 && errno == EAGAIN) continue;
                if (c->kind == CALLER && !c->is_probe && !c->is_done) failed++;
                drop(fd);
            } else if (c->kind == PROVIDER) read_request(fd, got);
            else {
                read_events(fd, got);
                if (c->is_done && c->is_probe) drop(fd);
            }
        }
        int64_t at_ns = now_ns();
        if (at_ns >= probe && probe_count < MOST - 1) {
            call(1);
            probe += PROBE_NS;
        }
        for (int fd = 0; fd < MOST; fd++) {
            struct conn *c = conns[fd];
            if (!c || c->kind != PROVIDER || !c->is_streaming) continue;
            while (c->left && c->due <= at_ns) {
                write_event(fd);
                c->left--;
                c->due += c->step;
            }
            if (!c->left) end_stream(fd);
        }
    }
    printf("{\"streams\":%d,\"complete\":%d,\"failed\":%d,\"seconds\":%.2f,\"probes_complete\":%d,", streams,
           complete, failed, (now_ns() - begun) / 1e9, probes_complete);
    tell("delay", delays, delay_count);
    printf(",");
    tell("first_byte", firsts, first_count);
    printf(",");
    tell("new_callers", probes, probe_count);
    printf("}\n");
    return 0;
}

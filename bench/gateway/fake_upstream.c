/* A model provider that takes no time: one thread, epoll, answers made once at the start.
 *
 * POST with a body gives a chat completion of about 1 KB, or, where the body says "stream":true,
 * fifty server-sent events in one write. GET /count tells how many of each were given; any other GET
 * is a health check and gives 200. Every answer holds a known number of tildes, by which load.c sees
 * that it is complete. A body that asks for at most 30011 tokens is answered with the call of a tool.
 * Not a web server: it trusts its callers.
 *
 *     fake_upstream PORT      prints the port it listens on; 0 takes a free one
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_CONNECTIONS 65536
#define EVENTS 50
#define TILDES 8

struct connection {
    char *in;
    size_t in_length, in_room;
    char *out;
    size_t out_sent, out_length, out_room;
};

static struct connection *connections[MOST_CONNECTIONS];
/* Each with a plain end, and with the call of a tool. */
static char whole[2][4096], streamed[2][32768], streamed_with_usage[2][32768], health[512];
static size_t whole_length[2], streamed_length[2], streamed_with_usage_length[2], health_length;

static const char *ends[] = {"stop", "tool_calls"};
static const char *calls[] = {
    "", ",\"tool_calls\":[{\"index\":0,\"id\":\"call_0\",\"type\":\"function\",\"function\":"
        "{\"name\":\"read_file_0\",\"arguments\":\"{\\\"path\\\":\\\"src/main.py\\\"}\"}}]"};
static unsigned long plain_count, stream_count;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void make_whole(int kind) {
    char text[1024] = "", body[2048];
    for (int i = 0; i < TILDES; i++)
        strcat(text, "The answer is given at once and has a length like that of a short reply, "
                     "ended here~ ");
    int length = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-000000000000\",\"object\":\"chat.completion\",\"created\":1700000000,"
        "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
        "\"content\":\"%s\",\"refusal\":null%s},\"logprobs\":null,\"finish_reason\":\"%s\"}],"
        "\"usage\":{\"prompt_tokens\":21,\"completion_tokens\":140,\"total_tokens\":161,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}},\"system_fingerprint\":\"fp_0\"}",
        text, calls[kind], ends[kind]);
    whole_length[kind] = snprintf(whole[kind], sizeof whole[kind],
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
        length, body);
}

static size_t chunk(char *to, const char *event) {
    return sprintf(to, "%zx\r\n%s\r\n", strlen(event), event);
}

static size_t make_stream(char *to, int kind, int has_usage) {
    const char *head = "data: {\"id\":\"chatcmpl-000000000000\",\"object\":\"chat.completion.chunk\","
                       "\"created\":1700000000,\"model\":\"bench\",\"choices\":[";
    char event[1024];
    size_t length = sprintf(to, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                                "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < EVENTS; i++) {
        snprintf(event, sizeof event,
                 "%s{\"index\":0,\"delta\":{%s\"content\":\"word%d~ \"},\"finish_reason\":null}]}\n\n",
                 head, i ? "" : "\"role\":\"assistant\",", i);
        length += chunk(to + length, event);
    }
    snprintf(event, sizeof event, "%s{\"index\":0,\"delta\":{%s},\"finish_reason\":\"%s\"}]}\n\n", head,
             *calls[kind] ? calls[kind] + 1 : "", ends[kind]);
    length += chunk(to + length, event);
    if (has_usage) {
        snprintf(event, sizeof event, "%s],\"usage\":{\"prompt_tokens\":21,\"completion_tokens\":%d,"
                 "\"total_tokens\":%d}}\n\n", head, EVENTS, EVENTS + 21);
        length += chunk(to + length, event);
    }
    length += chunk(to + length, "data: [DONE]\n\n");
    return length + sprintf(to + length, "0\r\n\r\n");
}

static void make_health(void) {
    const char *body = "{\"status\":\"ok\",\"object\":\"list\",\"data\":[{\"id\":\"bench\","
                       "\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"bench\"}]}";
    health_length = snprintf(health, sizeof health, "HTTP/1.1 200 OK\r\ncontent-type: application/json"
                             "\r\ncontent-length: %zu\r\n\r\n%s", strlen(body), body);
}

static void queue(struct connection *c, const char *data, size_t length) {
    if (c->out_length + length > c->out_room) {
        c->out_room = (c->out_length + length) * 2;
        if (!(c->out = realloc(c->out, c->out_room))) die("realloc");
    }
    memcpy(c->out + c->out_length, data, length);
    c->out_length += length;
}

static const char *header(const char *head, size_t length, const char *name) {
    size_t wanted = strlen(name);
    for (const char *at = head; at && at + wanted < head + length;) {
        if (!strncasecmp(at, name, wanted)) return at + wanted;
        at = memchr(at, '\n', head + length - at);
        if (at) at++;
    }
    return NULL;
}

/* The length of a chunked body with its framing, or 0 when it is not all there yet. */
static size_t chunked_length(const char *body, size_t have) {
    size_t at = 0;
    for (;;) {
        const char *line = memmem(body + at, have - at, "\r\n", 2);
        if (!line) return 0;
        size_t size = strtoul(body + at, NULL, 16);
        at = line - body + 2 + size + 2;
        if (at > have) return 0;
        if (size == 0) return at;
    }
}

static int says(const char *body, size_t length, const char *key) {
    const char *at = memmem(body, length, key, strlen(key));
    if (!at) return 0;
    at += strlen(key);
    while (at < body + length && (*at == ' ' || *at == ':')) at++;
    return body + length - at >= 4 && !memcmp(at, "true", 4);
}

/* Answers one whole request; gives how many bytes of input it took, 0 when more must come. */
static size_t answer(struct connection *c, const char *in, size_t have) {
    const char *end = memmem(in, have, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = end - in + 4, body = 0;
    const char *length = header(in, head, "content-length:");
    const char *encoding = header(in, head, "transfer-encoding:");
    if (encoding) {
        if (!(body = chunked_length(end + 4, have - head))) return 0;
    } else if (length) {
        body = strtoul(length, NULL, 10);
    }
    if (have < head + body) return 0;
    const char *expect = header(in, head, "expect:");
    if (expect) queue(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    if (!memcmp(in, "GET /count", 10)) {
        char told[128], found[256];
        int n = sprintf(told, "{\"plain\":%lu,\"stream\":%lu}", plain_count, stream_count);
        n = sprintf(found, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", n, told);
        queue(c, found, n);
        return head + body;
    }
    if (in[0] != 'P' || !body) {
        queue(c, health, health_length);
        return head + body;
    }
    int kind = memmem(end + 4, body, ":30011", 6) != NULL;
    if (!says(end + 4, body, "\"stream\"")) {
        plain_count++;
        queue(c, whole[kind], whole_length[kind]);
    } else if (says(end + 4, body, "\"include_usage\"")) {
        stream_count++;
        queue(c, streamed_with_usage[kind], streamed_with_usage_length[kind]);
    } else {
        stream_count++;
        queue(c, streamed[kind], streamed_length[kind]);
    }
    return head + body;
}

static void drop(int fd) {
    struct connection *c = connections[fd];
    connections[fd] = NULL;
    free(c->in);
    free(c->out);
    free(c);
    close(fd);
}

/* Sends what is queued; false when the peer is gone. */
static int flush(int poll, int fd, struct connection *c) {
    int was_waiting = c->out_sent > 0;
    while (c->out_sent < c->out_length) {
        ssize_t n = send(fd, c->out + c->out_sent, c->out_length - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct epoll_event wanted = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};
            epoll_ctl(poll, EPOLL_CTL_MOD, fd, &wanted);
            return 1;
        }
        if (n < 0) return 0;
        c->out_sent += n;
    }
    c->out_sent = c->out_length = 0;
    if (was_waiting) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_MOD, fd, &wanted);
    }
    return 1;
}

static int readable(int fd, struct connection *c) {
    if (c->in_room - c->in_length < 16384) {
        c->in_room = c->in_room * 2 + 32768;
        if (!(c->in = realloc(c->in, c->in_room))) die("realloc");
    }
    ssize_t n = recv(fd, c->in + c->in_length, c->in_room - c->in_length, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return 0;
    if (n < 0) return 1;
    c->in_length += n;
    size_t at = 0, took;
    while (at < c->in_length && (took = answer(c, c->in + at, c->in_length - at))) at += took;
    memmove(c->in, c->in + at, c->in_length - at);
    c->in_length -= at;
    return 1;
}

static void welcome(int poll, int listening) {
    int fd, one = 1;
    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= MOST_CONNECTIONS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (!(connections[fd] = calloc(1, sizeof *connections[fd]))) die("calloc");
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, fd, &wanted)) die("epoll_ctl");
    }
}

int main(int count, char **given) {
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(count > 1 ? atoi(given[1]) : 0),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&address, sizeof address)) die("bind");
    if (listen(listening, 4096)) die("listen");
    getsockname(listening, (struct sockaddr *)&address, &length);
    make_health();
    for (int kind = 0; kind < 2; kind++) {
        make_whole(kind);
        streamed_length[kind] = make_stream(streamed[kind], kind, 0);
        streamed_with_usage_length[kind] = make_stream(streamed_with_usage[kind], kind, 1);
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = listening}, ready[256];
    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &wanted);
    for (;;) {
        int n = epoll_wait(poll, ready, 256, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listening) {
                welcome(poll, listening);
                continue;
            }
            struct connection *c = connections[fd];
            int is_there = 1;
            if (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) is_there = readable(fd, c);
            if (!is_there || !flush(poll, fd, c)) drop(fd);
        }
    }
}

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Java's own client as it comes: it offers HTTP/2 with every first request. */
class JavaClient {
    static int post(HttpClient client, String url, String more) throws Exception {
        String body = "{\"model\":\"big\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]" + more + "}";
        var request = HttpRequest.newBuilder(URI.create(url + "/v1/chat/completions"))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = client.send(request, BodyHandlers.ofLines());
        answer.body().forEach(System.out::println);
        return answer.statusCode();
    }

    public static void main(String[] given) throws Exception {
        var client = HttpClient.newHttpClient();
        var large = ",\"metadata\":{\"pad\":\"" + "x".repeat(Integer.parseInt(given[1])) + "\"}";
        System.out.println(post(client, given[0], ""));
        System.out.println(post(client, given[0], ",\"stream\":true"));
        System.out.println(post(client, given[0], large));
        // A client of its own: its first request is the one that offers HTTP/2.
        System.out.println(post(HttpClient.newHttpClient(), given[0], large));
    }
}

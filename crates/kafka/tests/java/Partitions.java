// Sends one record for each line of the standard input, whose key the line is, with the producer of Kafka itself, and
// prints the partition that it went to.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Partitions {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String key = input.readLine(); key != null; key = input.readLine()) {
                var sent = producer.send(new ProducerRecord<>(arguments[1], key, "value"));
                System.out.println(sent.get().partition());
            }
        }
    }
}

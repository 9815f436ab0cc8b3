// A program with the real Spring Batch: it lists what JobExplorer reads, launches and operates jobs, and prints JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.batch.core.Job;
import org.springframework.batch.core.JobExecution;
import org.springframework.batch.core.JobParametersBuilder;
import org.springframework.batch.core.Step;
import org.springframework.batch.core.StepExecution;
import org.springframework.batch.core.configuration.support.MapJobRegistry;
import org.springframework.batch.core.explore.JobExplorer;
import org.springframework.batch.core.explore.support.JobExplorerFactoryBean;
import org.springframework.batch.core.job.builder.JobBuilder;
import org.springframework.batch.core.launch.support.SimpleJobOperator;
import org.springframework.batch.core.launch.support.TaskExecutorJobLauncher;
import org.springframework.batch.core.repository.ExecutionContextSerializer;
import org.springframework.batch.core.repository.JobRepository;
import org.springframework.batch.core.repository.dao.DefaultExecutionContextSerializer;
import org.springframework.batch.core.repository.dao.Jackson2ExecutionContextStringSerializer;
import org.springframework.batch.core.repository.support.JobRepositoryFactoryBean;
import org.springframework.batch.core.step.builder.StepBuilder;
import org.springframework.batch.item.ExecutionContext;
import org.springframework.batch.item.ItemReader;
import org.springframework.batch.item.database.Order;
import org.springframework.batch.item.database.builder.JdbcCursorItemReaderBuilder;
import org.springframework.batch.item.database.builder.JdbcPagingItemReaderBuilder;
import org.springframework.batch.item.file.builder.FlatFileItemReaderBuilder;
import org.springframework.batch.repeat.RepeatStatus;
import org.springframework.core.io.FileSystemResource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;

public class Batch {
    static final ObjectMapper JSON = new ObjectMapper().registerModule(new JavaTimeModule());

    /** Reads what both serializers of Spring Batch have written, and writes as the default one does. */
    static class EitherSerializer implements ExecutionContextSerializer {
        private final DefaultExecutionContextSerializer java = new DefaultExecutionContextSerializer();
        private final Jackson2ExecutionContextStringSerializer json = new Jackson2ExecutionContextStringSerializer();

        @Override
        public Map<String, Object> deserialize(InputStream in) throws IOException {
            byte[] stored = in.readAllBytes();
            boolean isJson = stored.length > 0 && stored[0] == '{';
            return (isJson ? json : java).deserialize(new ByteArrayInputStream(stored));
        }

        @Override
        public void serialize(Map<String, Object> context, OutputStream out) throws IOException {
            java.serialize(context, out);
        }
    }

    final JsonNode order;
    final PGSimpleDataSource database = new PGSimpleDataSource();
    final JobRepository repository;
    final JobExplorer explorer;
    final TaskExecutorJobLauncher launcher = new TaskExecutorJobLauncher();
    final JdbcTransactionManager transactions;

    Batch(JsonNode order) throws Exception {
        this.order = order;
        database.setUrl(order.get("url").asText());
        transactions = new JdbcTransactionManager(database);
        ExecutionContextSerializer serializer = switch (order.path("serializer").asText("default")) {
            case "jackson" -> new Jackson2ExecutionContextStringSerializer();
            case "either" -> new EitherSerializer();
            default -> new DefaultExecutionContextSerializer();
        };
        var repositories = new JobRepositoryFactoryBean();
        repositories.setDataSource(database);
        repositories.setTransactionManager(transactions);
        repositories.setSerializer(serializer);
        repositories.afterPropertiesSet();
        repository = repositories.getObject();
        var explorers = new JobExplorerFactoryBean();
        explorers.setDataSource(database);
        explorers.setTransactionManager(transactions);
        explorers.setSerializer(serializer);
        explorers.afterPropertiesSet();
        explorer = explorers.getObject();
        launcher.setJobRepository(repository);
        launcher.afterPropertiesSet();
    }

    /** Does what each argument orders, and prints the answers as a list. */
    public static void main(String[] arguments) throws Exception {
        var answers = new ArrayList<Object>();
        for (var argument : arguments) {
            try {
                answers.add(answer(JSON.readTree(argument)));
            } catch (Exception error) {
                answers.add(Map.of("error", error.toString()));
            }
        }
        System.out.println(JSON.writerWithDefaultPrettyPrinter().writeValueAsString(answers));
    }

    static Object answer(JsonNode order) throws Exception {
        return switch (order.get("do").asText()) {
            case "vectors" -> vectors();
            case "list" -> new Batch(order).list();
            case "launch" -> new Batch(order).launch();
            case "restart" -> new Batch(order).restart();
            case "running" -> new Batch(order).running();
            case "stop", "abandon" -> new Batch(order).operate();
            default -> throw new IllegalArgumentException(order.toString());
        };
    }

    /** Everything that JobExplorer knows, by the name of the job. */
    Object list() throws Exception {
        var jobs = new TreeMap<String, Object>();
        for (var name : explorer.getJobNames()) {
            var instances = new ArrayList<Object>();
            for (var instance : explorer.getJobInstances(name, 0, 1000)) {
                var executions = new ArrayList<Object>();
                for (var execution : explorer.getJobExecutions(instance)) {
                    executions.add(told(explorer.getJobExecution(execution.getId())));
                }
                instances.add(Map.of("id", instance.getId(), "executions", executions));
            }
            jobs.put(name, instances);
        }
        return jobs;
    }

    /** The ids of the executions that JobExplorer takes as running. */
    Object running() {
        var ids = new TreeSet<Long>();
        for (var name : explorer.getJobNames()) {
            explorer.findRunningJobExecutions(name).forEach(execution -> ids.add(execution.getId()));
        }
        return ids;
    }

    Object told(JobExecution execution) {
        var told = new LinkedHashMap<String, Object>();
        told.put("id", execution.getId());
        told.put("instance", execution.getJobInstance().getInstanceId());
        told.put("version", execution.getVersion());
        told.put("status", execution.getStatus().name());
        told.put("exit_code", execution.getExitStatus().getExitCode());
        told.put("exit_message", execution.getExitStatus().getExitDescription());
        told.put("created_at", text(execution.getCreateTime()));
        told.put("started_at", text(execution.getStartTime()));
        told.put("ended_at", text(execution.getEndTime()));
        told.put("updated_at", text(execution.getLastUpdated()));
        var parameters = new TreeMap<String, Object>();
        execution.getJobParameters().getParameters().forEach((name, parameter) -> parameters.put(name,
            Map.of("type", parameter.getType().getName(), "value", String.valueOf(parameter.getValue()),
                "identifying", parameter.isIdentifying())));
        told.put("parameters", parameters);
        told.put("context", values(execution.getExecutionContext()));
        var steps = new TreeMap<String, Object>();
        execution.getStepExecutions().forEach(step -> steps.put(step.getStepName(), told(step)));
        told.put("steps", steps);
        told.put("failures", execution.getAllFailureExceptions().stream().map(String::valueOf).toList());
        return told;
    }

    static Object told(StepExecution step) {
        var told = new LinkedHashMap<String, Object>();
        told.put("id", step.getId());
        told.put("version", step.getVersion());
        told.put("status", step.getStatus().name());
        told.put("exit_code", step.getExitStatus().getExitCode());
        told.put("exit_message", step.getExitStatus().getExitDescription());
        told.put("read", step.getReadCount());
        told.put("write", step.getWriteCount());
        told.put("filter", step.getFilterCount());
        told.put("read_skip", step.getReadSkipCount());
        told.put("process_skip", step.getProcessSkipCount());
        told.put("write_skip", step.getWriteSkipCount());
        told.put("commit", step.getCommitCount());
        told.put("rollback", step.getRollbackCount());
        told.put("created_at", text(step.getCreateTime()));
        told.put("started_at", text(step.getStartTime()));
        told.put("ended_at", text(step.getEndTime()));
        told.put("updated_at", text(step.getLastUpdated()));
        told.put("context", values(step.getExecutionContext()));
        return told;
    }

    static String text(LocalDateTime time) {
        return time == null ? null : time.toString();
    }

    /** The values with the classes that a program would meet. */
    static Object values(ExecutionContext context) {
        var told = new TreeMap<String, Object>();
        context.entrySet().forEach(entry -> told.put(entry.getKey(),
            List.of(entry.getValue().getClass().getName(), JSON.valueToTree(entry.getValue()))));
        return told;
    }

    /** Reads numbers and writes them into the table `loaded`; fails at one of them, or pauses at each, if it is told so. */
    Job job() throws Exception {
        var fails = order.path("fails_at").asLong(-1);
        var pause = order.path("pause").asLong(0);
        var template = new JdbcTemplate(database);
        Step step = switch (order.get("step").asText()) {
            case "tasklet" -> new StepBuilder("work", repository).tasklet((contribution, context) -> {
                var execution = contribution.getStepExecution();
                kinds().forEach(execution.getExecutionContext()::put);
                kinds().forEach(execution.getJobExecution().getExecutionContext()::put);
                if (order.has("foreign")) {
                    execution.getExecutionContext().put("uri", java.net.URI.create("file:/x"));
                }
                if (fails >= 0) {
                    throw new IllegalStateException("told to fail");
                }
                return RepeatStatus.FINISHED;
            }, transactions).build();
            default -> new StepBuilder("load", repository).<Long, Long>chunk(2, transactions)
                .reader(reader())
                .processor(number -> {
                    if (number == fails) {
                        throw new IllegalStateException("told to fail at " + number);
                    }
                    Thread.sleep(pause);
                    return number;
                })
                .writer(numbers -> numbers.forEach(n -> template.update("insert into loaded (n) values (?)", n)))
                .build();
        };
        return new JobBuilder(order.get("job").asText(), repository).start(step).build();
    }

    ItemReader<Long> reader() throws Exception {
        var name = order.path("name").asText("");
        return switch (order.get("step").asText()) {
            case "csv" -> {
                var reader = new FlatFileItemReaderBuilder<Long>().name(name.isEmpty() ? "FlatFileItemReader" : name)
                    .resource(new FileSystemResource(order.get("file").asText())).linesToSkip(1)
                    .lineMapper((line, number) -> Long.valueOf(line)).build();
                yield reader;
            }
            case "cursor" -> new JdbcCursorItemReaderBuilder<Long>().name(name).dataSource(database)
                .sql("select n from source order by n").rowMapper((row, at) -> row.getLong(1)).build();
            default -> {
                var reader = new JdbcPagingItemReaderBuilder<Long>().name(name).dataSource(database).pageSize(2)
                    .selectClause("n").fromClause("source").sortKeys(Map.of("n", Order.ASCENDING))
                    .rowMapper((row, at) -> row.getLong(1)).build();
                reader.afterPropertiesSet();
                yield reader;
            }
        };
    }

    Object launch() throws Exception {
        var parameters = new JobParametersBuilder();
        order.path("parameters").fields().forEachRemaining(one -> parameters.addString(one.getKey(), one.getValue().asText()));
        order.path("longs").fields().forEachRemaining(one -> parameters.addLong(one.getKey(), one.getValue().asLong()));
        if (order.has("dates")) {
            parameters.addLocalDate("date", LocalDate.of(2026, 1, 31), false);
            parameters.addLocalTime("time", LocalTime.of(23, 59), false);
            parameters.addLocalDateTime("datetime", LocalDateTime.of(2026, 1, 31, 12, 0), false);
            parameters.addDouble("double", 1.0, false);
            parameters.addDate("legacy", new Date(0), false);
        }
        return told(launcher.run(job(), parameters.toJobParameters()));
    }

    /** By JobOperator, which knows nothing but the id. */
    Object restart() throws Exception {
        var id = operator(job()).restart(order.get("execution").asLong());
        return told(explorer.getJobExecution(id));
    }

    /** On an execution of any program, whose job this one does not know. */
    Object operate() throws Exception {
        var id = order.get("execution").asLong();
        var operator = operator();
        if (order.get("do").asText().equals("stop")) {
            operator.stop(id);
        } else {
            operator.abandon(id);
        }
        return told(explorer.getJobExecution(id));
    }

    SimpleJobOperator operator(Job... known) throws Exception {
        var jobs = new MapJobRegistry();
        for (var job : known) {
            register(jobs, job);
        }
        var operator = new SimpleJobOperator();
        operator.setJobRegistry(jobs);
        operator.setJobExplorer(explorer);
        operator.setJobRepository(repository);
        operator.setJobLauncher(launcher);
        operator.afterPropertiesSet();
        return operator;
    }

    static void register(MapJobRegistry jobs, Job job) throws Exception {
        jobs.register(new org.springframework.batch.core.configuration.JobFactory() {
            @Override
            public Job createJob() {
                return job;
            }

            @Override
            public String getJobName() {
                return job.getName();
            }
        });
    }

    /** What programs commonly put into a context. */
    static Map<String, Object> kinds() {
        var kinds = new TreeMap<String, Object>();
        kinds.put("text", "가 🦀 \" \\ \u0000");
        kinds.put("empty", "");
        kinds.put("int", -7);
        kinds.put("long", Long.MIN_VALUE);
        kinds.put("short", (short) -2);
        kinds.put("byte", (byte) -3);
        kinds.put("char", 'x');
        kinds.put("float", 0.5f);
        kinds.put("double", 0.1);
        kinds.put("whole_double", 1.0);
        kinds.put("nan", Double.NaN);
        kinds.put("true", true);
        kinds.put("r.read.count", 12);
        kinds.put("big_integer", new BigInteger("18446744073709551615"));
        kinds.put("huge", new BigInteger("-123456789012345678901234567890"));
        kinds.put("decimal", new BigDecimal("-12.50"));
        kinds.put("small", new BigDecimal("0.001"));
        kinds.put("date", new Date(1_700_000_000_123L));
        kinds.put("timestamp", java.sql.Timestamp.from(Instant.parse("2026-01-31T12:00:00.123456Z")));
        kinds.put("instant", Instant.parse("2026-01-31T12:00:00.000001Z"));
        kinds.put("local_date", LocalDate.of(2026, 1, 31));
        kinds.put("hour", LocalTime.of(23, 0));
        kinds.put("time", LocalTime.of(23, 59, 1, 500_000_000));
        kinds.put("local_date_time", LocalDateTime.of(2026, 1, 31, 12, 30));
        kinds.put("uuid", UUID.fromString("00000000-0000-0007-8000-000000000001"));
        kinds.put("status", org.springframework.batch.core.BatchStatus.FAILED);
        kinds.put("bytes", new byte[] {0, -1});
        kinds.put("longs", new long[] {1, 2});
        kinds.put("texts", new String[] {"a", null});
        kinds.put("array_list", new ArrayList<>(List.of(1L, "x", true, 2.5)));
        kinds.put("linked_list", new LinkedList<>(List.of(1, 2)));
        kinds.put("list_of", List.of("a", "b"));
        kinds.put("as_list", java.util.Arrays.asList("a", 1));
        kinds.put("tree_set", new TreeSet<>(List.of("b", "a")));
        kinds.put("hash_map", new HashMap<>(Map.of("a", 1L)));
        kinds.put("map_of", Map.of("a", 1L));
        kinds.put("tree_map", new TreeMap<>(Map.of("a", 1L, "b", 2L)));
        kinds.put("concurrent_map", new ConcurrentHashMap<>(Map.of("a", 1L)));
        var linked = new LinkedHashMap<String, Object>();
        linked.put("z", 1L);
        linked.put("a", new ArrayList<>(List.of(new LinkedHashMap<>())));
        kinds.put("linked_map", linked);
        var properties = new Properties();
        properties.put("p", "q");
        kinds.put("properties", properties);
        return kinds;
    }

    /** Each kind alone and all together, as the serializer stores them. */
    static Object vectors() throws IOException {
        var vectors = new LinkedHashMap<String, Object>();
        vectors.put("", stored(Map.of()));
        var all = kinds();
        for (var one : all.entrySet()) {
            vectors.put(one.getKey(), stored(Map.of(one.getKey(), one.getValue())));
        }
        vectors.put("*", stored(all));
        vectors.put("unknown", stored(Map.of("uri", java.net.URI.create("file:/x"))));
        return vectors;
    }

    static String stored(Map<String, Object> context) throws IOException {
        // One by one, as Spring Batch does: a map that is copied has less room.
        var copy = new HashMap<String, Object>();
        context.forEach(copy::put);
        var bytes = new ByteArrayOutputStream();
        new DefaultExecutionContextSerializer().serialize(copy, bytes);
        return bytes.toString(StandardCharsets.US_ASCII);
    }
}

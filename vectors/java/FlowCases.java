// Runs random jobs on the real Spring Batch, each until it completes or four times, and prints what they did, in the form of
// flow_restart.txt. The first line of a case describes the job in JSON.
//
// java -cp 'lib/*' FlowCases.java SEED COUNT > flow_random.txt
import java.util.*;
import java.util.stream.*;
import org.springframework.batch.core.*;
import org.springframework.batch.core.job.builder.*;
import org.springframework.batch.core.job.flow.*;
import org.springframework.batch.core.job.flow.support.SimpleFlow;
import org.springframework.batch.core.launch.support.TaskExecutorJobLauncher;
import org.springframework.batch.core.repository.JobRepository;
import org.springframework.batch.core.repository.support.JobRepositoryFactoryBean;
import org.springframework.batch.core.step.builder.StepBuilder;
import org.springframework.batch.repeat.RepeatStatus;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.task.TaskExecutor;
import org.springframework.jdbc.datasource.*;
import org.springframework.jdbc.datasource.init.*;

public class FlowCases {
    static JobRepository repository;
    static DataSourceTransactionManager manager;
    static TaskExecutorJobLauncher launcher = new TaskExecutorJobLauncher();
    static Random random;
    static int names;
    static List<String> ran = new ArrayList<>();

    static final String[] CODES = {"CUSTOM", "ALPHA", "COMPLETED WITH SKIPS", "NOOP", "FAILED", "STOPPED", "UNKNOWN", "EXECUTING"};
    static final String[] PATTERNS = {"FAILED", "FAILED", "COMPLETED", "CUSTOM", "C*", "ALPHA", "?LPHA", "*", "COMPLETED*", "NOOP",
        "STOPPED", "*L*"};

    static <T> T one(T[] of) { return of[random.nextInt(of.length)]; }
    static boolean once(int in) { return random.nextInt(in) == 0; }
    static String quoted(String text) { return "\"" + text + "\""; }
    static String list(Stream<String> items) { return items.collect(Collectors.joining(",", "[", "]")); }

    /** A tasklet, a decision, a flow with its own row, a split or a step that runs another job. */
    static class Node {
        String name, decides, after;
        List<String> calls = new ArrayList<>();
        boolean again;
        int limit;
        Graph flow, job;
        List<Graph> split = List.of();
        Object built;

        String text() {
            String text = "{\"name\":" + quoted(name);
            if (!calls.isEmpty()) text += ",\"calls\":" + list(calls.stream().map(FlowCases::quoted));
            if (after != null) text += ",\"after\":" + quoted(after);
            if (again) text += ",\"again\":true";
            if (limit > 0) text += ",\"limit\":" + limit;
            if (decides != null) text += ",\"decides\":" + quoted(decides);
            if (flow != null) text += ",\"flow\":" + flow.text();
            if (job != null) text += ",\"job\":" + job.text();
            if (!split.isEmpty()) text += ",\"split\":" + list(split.stream().map(Graph::text));
            return text + "}";
        }
    }

    static class Graph {
        List<Node> nodes = new ArrayList<>();
        /** From, pattern, target. */
        List<String[]> on = new ArrayList<>();
        boolean loops;

        String text() {
            String text = "{\"nodes\":" + list(nodes.stream().map(Node::text));
            if (!on.isEmpty())
                text += ",\"on\":" + list(on.stream().map(way -> list(Arrays.stream(way).map(FlowCases::quoted))));
            return text + "}";
        }

        List<String[]> of(Node node) { return on.stream().filter(way -> way[0].equals(node.name)).toList(); }

        boolean isPlain() {
            return on.isEmpty() && nodes.stream().allMatch(node -> node.decides == null && node.split.isEmpty());
        }

        /** Without the nodes that no way leads to. */
        void prune() {
            Set<String> reached = new HashSet<>(Set.of(nodes.get(0).name));
            for (int at = 0; at < nodes.size(); at++) {
                Node node = nodes.get(at);
                if (!reached.contains(node.name)) continue;
                if (of(node).isEmpty() && at + 1 < nodes.size()) reached.add(nodes.get(at + 1).name);
                of(node).forEach(way -> reached.add(way[2].replace("stop:", "")));
            }
            nodes.removeIf(node -> !reached.contains(node.name));
            on.removeIf(way -> !reached.contains(way[0]));
        }
    }

    static final int OUTER = 0, INNER = 1, BRANCH = 2;

    static Graph graph(int place) {
        Graph graph = new Graph();
        boolean mayDecide = random.nextInt(3) > 0;
        int count = (place == OUTER ? 2 : 1) + random.nextInt(place == OUTER ? 4 : 3);
        for (int at = 0; at < count; at++) graph.nodes.add(node(place, mayDecide));
        boolean hasSplit = graph.nodes.stream().anyMatch(node -> !node.split.isEmpty());
        // After a split, Spring Batch has no last step to decide on.
        if (hasSplit) graph.nodes.stream().filter(node -> node.decides != null).forEach(node -> node.decides = one(CODES));
        for (int at = 0; at < count; at++) {
            Node node = graph.nodes.get(at);
            if (node.decides == null && (!mayDecide || once(2))) continue;
            Set<String> patterns = new LinkedHashSet<>();
            for (int more = random.nextInt(3); more >= 0; more--) patterns.add(one(PATTERNS));
            // The builder of Spring Batch adds ways out for what has none, which Tidemill does not.
            if (!once(5)) patterns.add("*");
            else if (!patterns.contains("C*") && !patterns.contains("COMPLETED*") && !patterns.contains("*")) patterns.add("COMPLETED");
            for (String pattern : patterns) {
                String target = target(graph.nodes.subList(at + 1, count), place);
                if (place == OUTER && pattern.equals("FAILED") && !node.calls.isEmpty() && once(8)) {
                    target = graph.nodes.get(random.nextInt(at + 1)).name;
                    graph.loops = true;
                }
                graph.on.add(new String[] {node.name, pattern, target});
            }
        }
        graph.prune();
        return graph;
    }

    static String target(List<Node> later, int place) {
        int chance = random.nextInt(20);
        boolean mayStop = place != BRANCH;
        if (!later.isEmpty() && chance < 12) return later.get(random.nextInt(later.size())).name;
        if (!later.isEmpty() && chance < 14 && mayStop) return "stop:" + later.get(random.nextInt(later.size())).name;
        if (chance < 16 && mayStop) return "stop";
        if (chance < 17) return "fail";
        return chance < 18 ? "end:" + one(new String[] {"DONE", "FAILED", "NOOP", "COMPLETED WITH SKIPS"}) : "end";
    }

    static Node node(int place, boolean mayDecide) {
        Node node = new Node();
        int kind = random.nextInt(20);
        if (kind < 2 && mayDecide) {
            node.name = "d" + ++names;
            node.decides = once(2) ? "last" : one(CODES);
        } else if (kind == 2 && place == OUTER || kind == 3 && place == OUTER) {
            node.name = "f" + ++names;
            node.flow = graph(INNER);
        } else if (kind == 4 && place == OUTER || kind == 5 && place == OUTER) {
            node.name = "p" + ++names;
            node.split = List.of(graph(BRANCH), graph(BRANCH));
        } else if (kind == 6 && place == OUTER || kind == 7 && place == OUTER) {
            node.name = "j" + ++names;
            node.job = graph(INNER);
        } else {
            node.name = "s" + ++names;
            if (once(2)) {
                for (int call = random.nextInt(3); call >= 0; call--)
                    node.calls.add((once(3) ? one(CODES) : "") + (once(2) ? "!" : ""));
            }
            if (once(12)) node.after = one(new String[] {"CUSTOM", "COMPLETED", "NOOP", "BETA"});
        }
        if (node.decides == null && node.split.isEmpty() && node.flow == null) {
            node.again = once(8);
            if (once(8)) node.limit = 1 + random.nextInt(2);
        }
        return node;
    }

    /** Each flow of a split in a thread of its own, one after the other. */
    static final TaskExecutor IN_TURN = task -> {
        Thread thread = new Thread(task);
        thread.start();
        try { thread.join(); } catch (InterruptedException e) { throw new IllegalStateException(e); }
    };

    static Object built(Node node, String label) {
        if (node.decides != null) {
            return (JobExecutionDecider) (job, step) -> new FlowExecutionStatus(
                !node.decides.equals("last") ? node.decides : step == null ? "NONE" : step.getExitStatus().getExitCode());
        }
        if (!node.split.isEmpty()) {
            Flow[] flows = new Flow[node.split.size()];
            for (int at = 0; at < flows.length; at++) flows[at] = flow(node.split.get(at), node.name + at, label);
            return new FlowBuilder<SimpleFlow>(node.name).split(IN_TURN).add(flows).build();
        }
        StepBuilder builder = new StepBuilder(node.name, repository).allowStartIfComplete(node.again);
        if (node.limit > 0) builder.startLimit(node.limit);
        if (node.after != null) builder.listener(new StepExecutionListener() {
            public ExitStatus afterStep(StepExecution step) { return new ExitStatus(node.after); }
        });
        if (node.flow != null) return builder.flow(flow(node.flow, node.name, label)).build();
        if (node.job != null) return builder.job(job(node.job, label + "-" + node.name)).launcher(launcher).build();
        int[] call = {0};
        return builder.tasklet((contribution, context) -> {
            ran.add(node.name);
            String what = call[0] < node.calls.size() ? node.calls.get(call[0]) : "";
            call[0]++;
            String code = what.replace("!", "");
            if (!code.isEmpty()) contribution.setExitStatus(new ExitStatus(code));
            if (what.endsWith("!")) throw new IllegalStateException("boom");
            return RepeatStatus.FINISHED;
        }, manager).build();
    }

    static Flow flow(Graph graph, String name, String label) {
        return filled(new FlowBuilder<Flow>(name), graph, label).build();
    }

    static Job job(Graph graph, String label) {
        if (!graph.isPlain()) return filled(new JobFlowBuilder(new FlowJobBuilder(new JobBuilder(label, repository))), graph, label).build().build();
        SimpleJobBuilder builder = null;
        for (Node node : graph.nodes) {
            Step step = (Step) built(node, label);
            builder = builder == null ? new JobBuilder(label, repository).start(step) : builder.next(step);
        }
        return builder.build();
    }

    static <Q> FlowBuilder<Q> filled(FlowBuilder<Q> builder, Graph graph, String label) {
        Map<String, Object> built = new HashMap<>();
        for (Node node : graph.nodes) built.put(node.name, built(node, label));
        start(builder, built.get(graph.nodes.get(0).name));
        for (int at = 0; at < graph.nodes.size(); at++) {
            Node node = graph.nodes.get(at);
            for (String[] way : graph.of(node)) {
                start(builder, built.get(node.name));
                var from = builder.on(way[1]);
                if (way[2].equals("end")) from.end();
                else if (way[2].startsWith("end:")) from.end(way[2].substring(4));
                else if (way[2].equals("fail")) from.fail();
                else if (way[2].equals("stop")) from.stop();
                else if (way[2].startsWith("stop:")) {
                    Object to = built.get(way[2].substring(5));
                    if (to instanceof Step step) from.stopAndRestart(step);
                    else if (to instanceof Flow flow) from.stopAndRestart(flow);
                    else from.stopAndRestart((JobExecutionDecider) to);
                } else {
                    Object to = built.get(way[2]);
                    if (to instanceof Step step) from.to(step);
                    else if (to instanceof Flow flow) from.to(flow);
                    else from.to((JobExecutionDecider) to);
                }
            }
            if (!graph.of(node).isEmpty() || at + 1 == graph.nodes.size()) continue;
            start(builder, built.get(node.name));
            Object next = built.get(graph.nodes.get(at + 1).name);
            if (next instanceof Step step) builder.next(step);
            else if (next instanceof Flow flow) builder.next(flow);
            else builder.next((JobExecutionDecider) next);
        }
        return builder;
    }

    /** Starts, or goes on from what is known already. */
    static void start(FlowBuilder<?> builder, Object node) {
        if (node instanceof Step step) builder.start(step);
        else if (node instanceof Flow flow) builder.start(flow);
        else builder.start((JobExecutionDecider) node);
    }

    static JobExecution launch(Job job, long day) throws JobExecutionException {
        ran.clear();
        return launcher.run(job, new JobParametersBuilder().addLong("day", day).toJobParameters());
    }

    static String told(JobExecution run) {
        String steps = run.getStepExecutions().stream()
            .map(step -> step.getStepName() + "=" + step.getStatus() + "/" + step.getExitStatus().getExitCode())
            .collect(Collectors.joining(" "));
        return ("    job=" + run.getStatus() + "/" + run.getExitStatus().getExitCode() + " ran=" + ran + " | " + steps).stripTrailing();
    }

    public static void main(String[] args) throws Exception {
        var source = new SingleConnectionDataSource("jdbc:h2:mem:b", true);
        DatabasePopulatorUtils.execute(
            new ResourceDatabasePopulator(new ClassPathResource("org/springframework/batch/core/schema-h2.sql")), source);
        manager = new DataSourceTransactionManager(source);
        var factory = new JobRepositoryFactoryBean();
        factory.setDataSource(source);
        factory.setTransactionManager(manager);
        factory.afterPropertiesSet();
        repository = factory.getObject();
        launcher.setJobRepository(repository);
        launcher.afterPropertiesSet();
        random = new Random(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        for (int day = 1; count > 0; day++) {
            names = 0;
            Graph graph = graph(OUTER);
            Job job = job(graph, "flow" + day);
            List<String> lines = new ArrayList<>(List.of(graph.text()));
            boolean isDone = false, hasFault = false;
            // What has a loop may never end when a failed step in it was abandoned.
            for (int left = graph.loops ? 1 : 4; left > 0 && !isDone; left--) {
                JobExecution run = launch(job, day);
                lines.add(told(run));
                isDone = run.getStatus() == BatchStatus.COMPLETED;
                hasFault |= run.getAllFailureExceptions().stream().anyMatch(failure -> failure instanceof NullPointerException);
            }
            // Spring Batch has a fault in SimpleFlow.isFlowContinued.
            if (hasFault) continue;
            lines.forEach(System.out::println);
            count--;
        }
    }
}

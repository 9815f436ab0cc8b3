// Runs random chunk steps on the real Spring Batch and prints what they did, in the form of chunk.txt.
//
// java -cp 'lib/*' ChunkCases.java SEED COUNT > chunk_random.txt
// java -cp 'lib/*' ChunkCases.java SEED COUNT restart > chunk_restart.txt   (only steps that fail, which are restarted twice)
import java.util.*;
import java.util.stream.*;
import org.springframework.batch.core.*;
import org.springframework.batch.core.job.SimpleStepHandler;
import org.springframework.batch.core.repository.JobRepository;
import org.springframework.batch.core.repository.support.JobRepositoryFactoryBean;
import org.springframework.batch.core.scope.context.ChunkContext;
import org.springframework.batch.core.step.builder.*;
import org.springframework.batch.item.*;
import org.springframework.batch.item.support.AbstractItemCountingItemStreamItemReader;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.init.DatabasePopulatorUtils;
import org.springframework.jdbc.datasource.init.ResourceDatabasePopulator;
import org.springframework.core.io.ClassPathResource;

public class ChunkCases {
    static class ReadError extends RuntimeException {}
    static class ProcessError extends RuntimeException {}
    static class WriteError extends RuntimeException {}

    static final List<Class<? extends RuntimeException>> KINDS =
        List.of(ReadError.class, ProcessError.class, WriteError.class);
    static final String[] PHASES = {"read", "process", "write"};

    /** Items that fail; the number of failures, or MAX_VALUE for always. */
    static class Fails {
        final TreeMap<Integer, Integer> items = new TreeMap<>();
        boolean fails(int item) {
            int left = items.getOrDefault(item, 0);
            if (left != 0 && left != Integer.MAX_VALUE) items.put(item, left - 1);
            return left != 0;
        }
        String text() {
            return items.entrySet().stream()
                .map(e -> e.getKey() + (e.getValue() == Integer.MAX_VALUE ? "" : "x" + e.getValue()))
                .collect(Collectors.joining(","));
        }
    }

    static class Case {
        int items, chunk, limit, attempts;
        Fails[] fails = {new Fails(), new Fails(), new Fails()};
        TreeSet<Integer> filters = new TreeSet<>();
        TreeSet<Integer> skip = new TreeSet<>(), retry = new TreeSet<>(), noRollback = new TreeSet<>();
        boolean tolerant, transactional = true;
        /** Whether nothing fails any more after the first run. */
        boolean heals;

        static Case random(Random random) {
            Case c = new Case();
            c.items = 1 + random.nextInt(8);
            c.chunk = 1 + random.nextInt(5);
            c.tolerant = random.nextInt(10) > 0;
            for (int item = 1; item <= c.items; item++) {
                if (random.nextInt(12) == 0) c.fails[0].items.put(item, Integer.MAX_VALUE);
                for (int phase = 1; phase < 3; phase++) {
                    if (random.nextInt(6) == 0)
                        c.fails[phase].items.put(item, random.nextInt(3) == 0 ? 1 + random.nextInt(2) : Integer.MAX_VALUE);
                }
                if (random.nextInt(8) == 0) c.filters.add(item);
            }
            if (!c.tolerant) return c;
            c.limit = random.nextInt(4) == 0 ? random.nextInt(3) : 10;
            c.attempts = random.nextInt(2) == 0 ? 0 : 2 + random.nextInt(2);
            for (int kind = 0; kind < 3; kind++) {
                if (random.nextInt(6) > 0) c.skip.add(kind);
                if (c.attempts > 0 && random.nextBoolean()) c.retry.add(kind);
                if (kind > 0 && c.skip.contains(kind) && random.nextInt(4) == 0) c.noRollback.add(kind);
            }
            if (c.retry.isEmpty()) c.attempts = 0;
            c.transactional = random.nextInt(5) > 0;
            return c;
        }

        static String kinds(Set<Integer> kinds) {
            return kinds.stream().map(kind -> PHASES[kind]).collect(Collectors.joining(","));
        }

        String title() {
            StringBuilder text = new StringBuilder("items=" + items + " chunk=" + chunk);
            for (int phase = 0; phase < 3; phase++)
                if (!fails[phase].items.isEmpty()) text.append(" " + PHASES[phase] + "=" + fails[phase].text());
            if (!filters.isEmpty())
                text.append(" filter=" + filters.stream().map(String::valueOf).collect(Collectors.joining(",")));
            if (heals) text.append(" heals");
            if (!tolerant) return text + " plain";
            text.append(" limit=" + limit);
            if (!skip.isEmpty()) text.append(" skip=" + kinds(skip));
            if (!retry.isEmpty()) text.append(" retry=" + kinds(retry) + " attempts=" + attempts);
            if (!noRollback.isEmpty()) text.append(" noRollback=" + kinds(noRollback));
            return text + (transactional ? "" : " nonTx");
        }
    }

    static class Trace implements ChunkListener, SkipListener<Integer, Integer> {
        final List<String> calls = new ArrayList<>();
        final Set<Integer> written = new HashSet<>(), committed = new HashSet<>();
        /** Whether an item was written again that was committed before. */
        boolean repeats;
        void write(List<? extends Integer> items) {
            calls.add("w" + items);
            repeats |= items.stream().anyMatch(committed::contains);
            written.addAll(items);
        }
        public void afterChunk(ChunkContext context) { calls.add("|C"); committed.addAll(written); written.clear(); }
        public void afterChunkError(ChunkContext context) { calls.add("|R"); written.clear(); }
        public void onSkipInRead(Throwable t) { calls.add("SR"); }
        public void onSkipInProcess(Integer item, Throwable t) { calls.add("SP" + item); }
        public void onSkipInWrite(Integer item, Throwable t) { calls.add("SW" + item); }
    }

    static class Reader extends AbstractItemCountingItemStreamItemReader<Integer> {
        final Case c; int at;
        Reader(Case c) { this.c = c; setName("r"); }
        protected void doOpen() { at = 0; }
        protected void jumpToItem(int item) { at = item; }
        protected void doClose() {}
        protected Integer doRead() {
            if (at >= c.items) return null;
            at++;
            if (c.fails[0].fails(at)) throw new ReadError();
            return at;
        }
    }

    public static void main(String[] args) throws Exception {
        var source = new org.springframework.jdbc.datasource.SingleConnectionDataSource("jdbc:h2:mem:b", true);
        DatabasePopulatorUtils.execute(
            new ResourceDatabasePopulator(new ClassPathResource("org/springframework/batch/core/schema-h2.sql")), source);
        var manager = new DataSourceTransactionManager(source);
        var factory = new JobRepositoryFactoryBean();
        factory.setDataSource(source);
        factory.setTransactionManager(manager);
        factory.afterPropertiesSet();
        JobRepository repository = factory.getObject();
        Random random = new Random(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        boolean restarts = args.length > 2;
        Set<String> titles = new HashSet<>();
        while (titles.size() < count) {
            Case c = Case.random(random);
            c.heals = restarts && random.nextInt(3) == 0;
            String title = c.title();
            if (c.fails[0].items.isEmpty() && c.fails[1].items.isEmpty() && c.fails[2].items.isEmpty()) continue;
            if (titles.contains(title)) continue;
            List<String> told = run(title, c, repository, manager, restarts ? 3 : 1);
            if (restarts && told.size() < 4) continue;
            // What Tidemill knowingly does otherwise.
            if (told.stream().anyMatch(line -> line.contains("=TerminatedRetryException") || line.contains("=ItemStreamException"))) continue;
            titles.add(title);
            told.forEach(System.out::println);
        }
    }

    /** Without what depends on the version. */
    static Map<String, Object> kept(ExecutionContext context) {
        Map<String, Object> kept = new TreeMap<>(context.toMap());
        kept.keySet().removeIf(key -> key.startsWith("batch."));
        return kept;
    }

    static Step step(Case c, ItemProcessor<Integer, Integer> processor, ItemWriter<Integer> writer, Trace trace,
            JobRepository repository, DataSourceTransactionManager manager) {
        SimpleStepBuilder<Integer, Integer> simple = new StepBuilder("s", repository)
            .<Integer, Integer>chunk(c.chunk, manager)
            .reader(new Reader(c)).processor(processor).writer(writer);
        if (c.tolerant) {
            FaultTolerantStepBuilder<Integer, Integer> built = simple.faultTolerant().skipLimit(c.limit);
            c.skip.forEach(kind -> built.skip(KINDS.get(kind)));
            c.retry.forEach(kind -> built.retry(KINDS.get(kind)));
            c.noRollback.forEach(kind -> built.noRollback(KINDS.get(kind)));
            if (c.attempts > 0) built.retryLimit(c.attempts);
            if (!c.transactional) built.processorNonTransactional();
            built.listener((ChunkListener) trace);
            built.listener((SkipListener<Integer, Integer>) trace);
            return built.build();
        }
        return simple.listener((ChunkListener) trace).build();
    }

    static List<String> run(String title, Case c, JobRepository repository, DataSourceTransactionManager manager, int runs)
            throws Exception {
        Trace trace = new Trace();
        ItemProcessor<Integer, Integer> processor = item -> {
            trace.calls.add("p" + item);
            if (c.fails[1].fails(item)) throw new ProcessError();
            return c.filters.contains(item) ? null : item;
        };
        ItemWriter<Integer> writer = items -> {
            trace.write(items.getItems());
            for (Integer item : items) if (c.fails[2].fails(item)) throw new WriteError();
        };
        var parameters = new JobParametersBuilder().addString("title", UUID.randomUUID().toString()).toJobParameters();
        List<String> told = new ArrayList<>();
        for (int left = runs; left > 0; left--) {
            JobExecution job = repository.createJobExecution("j", parameters);
            trace.calls.clear();
            // A step remembers what it has retried, so a restart has a new one, as in another process.
            Step step = step(c, processor, writer, trace, repository, manager);
            StepExecution run = new SimpleStepHandler(repository).handleStep(step, job);
            told.add(String.format("%s %s read=%d write=%d filter=%d rs=%d ps=%d ws=%d commit=%d rollback=%d",
                left == runs ? title : "   ", run.getStatus(), run.getReadCount(), run.getWriteCount(), run.getFilterCount(),
                run.getReadSkipCount(), run.getProcessSkipCount(), run.getWriteSkipCount(), run.getCommitCount(),
                run.getRollbackCount()));
            told.add("    " + String.join(" ", trace.calls));
            if (run.getStatus() == BatchStatus.COMPLETED) break;
            Throwable cause = run.getFailureExceptions().get(0);
            told.add(String.format("    exit=%s cause=%s ctx=%s", run.getExitStatus().getExitCode(),
                cause.getClass().getSimpleName(), kept(run.getExecutionContext())));
            if (c.heals) for (Fails fails : c.fails) fails.items.clear();
            job.setStatus(BatchStatus.FAILED);
            job.setEndTime(java.time.LocalDateTime.now());
            repository.update(job);
        }
        // Tidemill writes no item again that was committed.
        return trace.repeats ? List.of() : told;
    }
}

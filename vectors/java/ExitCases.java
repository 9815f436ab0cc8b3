// Runs jobs whose tasklets set exit codes on the real Spring Batch, and prints what they did, in the form of flow_restart.txt.
//
// java -cp 'lib/*' ExitCases.java > exit.txt
import java.util.*;
import org.springframework.batch.core.*;
import org.springframework.batch.core.job.builder.JobBuilder;
import org.springframework.batch.core.launch.support.TaskExecutorJobLauncher;
import org.springframework.batch.core.repository.JobRepository;
import org.springframework.batch.core.repository.support.JobRepositoryFactoryBean;
import org.springframework.batch.core.step.builder.StepBuilder;
import org.springframework.batch.repeat.RepeatStatus;
import org.springframework.core.io.ClassPathResource;
import org.springframework.jdbc.datasource.*;
import org.springframework.jdbc.datasource.init.*;

public class ExitCases {
    static JobRepository repository;
    static DataSourceTransactionManager manager;
    static TaskExecutorJobLauncher launcher = new TaskExecutorJobLauncher();
    static List<String> ran = new ArrayList<>();
    /** The codes that s1 sets, one in each call; whether its last call fails. */
    static List<String> codes = List.of();
    static boolean fails;

    static Step step(String name) {
        int[] call = {0};
        return new StepBuilder(name, repository).tasklet((contribution, context) -> {
            if (call[0] == 0) ran.add(name);
            if (!name.equals("s1")) return RepeatStatus.FINISHED;
            if (call[0] < codes.size()) contribution.setExitStatus(new ExitStatus(codes.get(call[0])));
            boolean isLast = ++call[0] >= codes.size();
            if (isLast) call[0] = 0;
            if (isLast && fails) throw new IllegalStateException("boom");
            return isLast ? RepeatStatus.FINISHED : RepeatStatus.CONTINUABLE;
        }, manager).build();
    }

    static void launch(String label, Job job, long day) throws Exception {
        ran.clear();
        JobExecution run = launcher.run(job, new JobParametersBuilder().addLong("day", day).toJobParameters());
        StringBuilder steps = new StringBuilder();
        for (StepExecution step : run.getStepExecutions())
            steps.append(step.getStepName() + "=" + step.getStatus() + "/" + step.getExitStatus().getExitCode() + " ");
        System.out.printf("%-58s job=%s/%s ran=%s | %s%n", label, run.getStatus(), run.getExitStatus().getExitCode(), ran, steps);
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
        Step s1 = step("s1"), s2 = step("s2"), rec = step("rec");
        Job flow = new JobBuilder("coded", repository).start(s1)
            .on("CUSTOM").to(rec).from(s1).on("COMPLETED").to(s2).from(s1).on("FAILED").fail()
            .from(s2).on("*").end().from(rec).on("*").end().end().build();
        Job simple = new JobBuilder("coded-simple", repository).start(s1).next(s2).build();
        Object[][] cases = {
            {"Q1", true, "CUSTOM"}, {"Q2", true, "COMPLETED"}, {"Q3", true, "NOOP"}, {"Q4", true, "OTHER"},
            {"Q5", false, "CUSTOM", "COMPLETED"}, {"Q6", false, "CUSTOM", "ALPHA"}, {"Q7", false, "EXECUTING"},
            {"Q8", false, "COMPLETED", "CUSTOM"}, {"Q9", true, "CUSTOM", "EXECUTING"},
        };
        long day = 0;
        for (Object[] one : cases) {
            fails = (Boolean) one[1];
            codes = new ArrayList<>();
            for (int at = 2; at < one.length; at++) codes.add((String) one[at]);
            String label = one[0] + " s1 sets " + String.join(" then ", codes) + (fails ? " and fails" : "");
            launch(label, flow, ++day);
        }
        fails = true;
        codes = List.of("CUSTOM");
        launch("Q10 simple job, s1 sets CUSTOM and fails", simple, 1);
        fails = false;
        launch("Q10r restart, s1 sets CUSTOM", simple, 1);
        codes = List.of("EXECUTING");
        launch("Q11 simple job, s1 sets EXECUTING", simple, 2);
    }
}

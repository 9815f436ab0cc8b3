// A job of Spring Batch that copies payments from a table or a file, tuned: one connection that stays open, fetches of 2000
// rows, and batches that the driver rewrites into inserts of many rows. Prints what it took as JSON.

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.UUID;
import org.postgresql.ds.PGSimpleDataSource;
import org.springframework.batch.core.BatchStatus;
import org.springframework.batch.core.JobParametersBuilder;
import org.springframework.batch.core.Step;
import org.springframework.batch.core.job.builder.JobBuilder;
import org.springframework.batch.core.launch.support.TaskExecutorJobLauncher;
import org.springframework.batch.core.repository.JobRepository;
import org.springframework.batch.core.repository.support.JobRepositoryFactoryBean;
import org.springframework.batch.core.step.builder.StepBuilder;
import org.springframework.batch.item.ItemReader;
import org.springframework.batch.item.database.ItemPreparedStatementSetter;
import org.springframework.batch.item.database.builder.JdbcBatchItemWriterBuilder;
import org.springframework.batch.item.database.builder.JdbcCursorItemReaderBuilder;
import org.springframework.batch.item.file.builder.FlatFileItemReaderBuilder;
import org.springframework.core.io.FileSystemResource;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;
import org.springframework.jdbc.support.JdbcTransactionManager;

public class Copy {
    static final String COLUMNS = "id, account, amount, currency, booked_at, note, is_open";

    record Payment(long id, UUID account, BigDecimal amount, String currency, OffsetDateTime bookedAt, String note,
        boolean isOpen) {
    }

    final String url;
    final int chunk;
    final SingleConnectionDataSource database;
    final JdbcTransactionManager transactions;
    final JobRepository repository;

    Copy(String url, int chunk) throws Exception {
        this.url = url;
        this.chunk = chunk;
        // The server finds the types of texts from a file.
        database = new SingleConnectionDataSource(url + "&reWriteBatchedInserts=true&stringtype=unspecified", true);
        transactions = new JdbcTransactionManager(database);
        var repositories = new JobRepositoryFactoryBean();
        repositories.setDataSource(database);
        repositories.setTransactionManager(transactions);
        repositories.afterPropertiesSet();
        repository = repositories.getObject();
    }

    /** Arguments: the URL, the size of a chunk, the number of rows, and the file, if the rows are read from one. */
    public static void main(String[] arguments) throws Exception {
        var copy = new Copy(arguments[0], Integer.parseInt(arguments[1]));
        var rows = Long.parseLong(arguments[2]);
        var step = arguments.length > 3 ? copy.ofFile(arguments[3]) : copy.ofTable(rows);
        var launcher = new TaskExecutorJobLauncher();
        launcher.setJobRepository(copy.repository);
        launcher.afterPropertiesSet();
        var job = new JobBuilder("spring", copy.repository).start(step).build();
        var parameters = new JobParametersBuilder().addLong("run", System.nanoTime()).toJobParameters();
        var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        var start = System.nanoTime();
        var cpu = system.getProcessCpuTime();
        var execution = launcher.run(job, parameters);
        var seconds = (System.nanoTime() - start) / 1e9;
        var cpuSeconds = (system.getProcessCpuTime() - cpu) / 1e9;
        var written = execution.getStepExecutions().iterator().next().getWriteCount();
        if (execution.getStatus() != BatchStatus.COMPLETED || written != rows) {
            throw new IllegalStateException(execution + ", " + written + " rows");
        }
        System.out.printf("{\"rows\":%d,\"seconds\":%s,\"cpu_seconds\":%s,\"resident_mb\":%s}%n", rows, seconds, cpuSeconds,
            residentMb());
        System.exit(0);
    }

    Step ofTable(long rows) {
        var source = new PGSimpleDataSource();
        source.setUrl(url);
        var reader = new JdbcCursorItemReaderBuilder<Payment>().name("source").dataSource(source).fetchSize(2000)
            .connectionAutoCommit(false).verifyCursorPosition(false)
            .sql("select " + COLUMNS + " from source where id <= " + rows + " order by id")
            .rowMapper((row, at) -> new Payment(row.getLong(1), row.getObject(2, UUID.class), row.getBigDecimal(3),
                row.getString(4), row.getObject(5, OffsetDateTime.class), row.getString(6), row.getBoolean(7)))
            .build();
        return step(reader, Copy::set);
    }

    static void set(Payment payment, PreparedStatement row) throws SQLException {
        row.setLong(1, payment.id);
        row.setObject(2, payment.account);
        row.setBigDecimal(3, payment.amount);
        row.setString(4, payment.currency);
        row.setObject(5, payment.bookedAt);
        row.setString(6, payment.note);
        row.setBoolean(7, payment.isOpen);
    }

    Step ofFile(String file) {
        var reader = new FlatFileItemReaderBuilder<String[]>().name("source").resource(new FileSystemResource(file))
            .linesToSkip(1).delimited().names(COLUMNS.split(", ")).fieldSetMapper(fields -> fields.getValues()).build();
        return step(reader, (fields, row) -> {
            for (int index = 0; index < fields.length; index++) {
                row.setString(index + 1, fields[index]);
            }
        });
    }

    <T> Step step(ItemReader<T> reader, ItemPreparedStatementSetter<T> setter) {
        var writer = new JdbcBatchItemWriterBuilder<T>().dataSource(database).assertUpdates(false)
            .sql("insert into target (" + COLUMNS + ") values (?, ?, ?, ?, ?, ?, ?)")
            .itemPreparedStatementSetter(setter).build();
        writer.afterPropertiesSet();
        return new StepBuilder("all", repository).<T, T>chunk(chunk, transactions).reader(reader).writer(writer).build();
    }

    static double residentMb() throws Exception {
        var line = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(text -> text.startsWith("VmHWM:"));
        return Long.parseLong(line.findFirst().orElseThrow().replaceAll("\\D", "")) / 1024.0;
    }
}

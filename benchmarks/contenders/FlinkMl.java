import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.restartstrategy.RestartStrategies;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.ml.classification.logisticregression.LogisticRegressionModelData;
import org.apache.flink.ml.classification.logisticregression.LogisticRegressionModelDataUtil;
import org.apache.flink.ml.classification.logisticregression.OnlineLogisticRegression;
import org.apache.flink.ml.linalg.DenseVector;
import org.apache.flink.ml.linalg.typeinfo.DenseVectorTypeInfo;
import org.apache.flink.runtime.checkpoint.CheckpointException;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.state.CheckpointListener;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.CheckpointingMode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.CheckpointConfig.ExternalizedCheckpointCleanup;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/**
 * Flink ML's OnlineLogisticRegression over a file of vectors, in a local mini cluster with exactly-once checkpoints.
 *
 * <p>Each argument is a properties file with the options of one job. The source sends a mini-batch after the model of
 * the mini-batch before has arrived, and asks for a checkpoint at known records, so a failure always loses the same
 * work. `failure` is `none`, `exception` (Flink restarts the job) or `kill` (this process waits at the record for its
 * SIGKILL; `restore` names the checkpoint from which a second process continues).
 */
public final class FlinkMl {
    private static final long NEVER = 24L * 3600 * 1000;

    /** The state that the source, the sink and `main` share; all of them are in this process. */
    private static final class Shared {
        static final List<LogisticRegressionModelData> models = Collections.synchronizedList(new ArrayList<>());
        static volatile int updates;
        static volatile int checkpointAt = -1;
        static volatile boolean failed;
        static volatile boolean done;
        static volatile long records;
        static volatile long digest;

        static void clear() {
            models.clear();
            updates = 0;
            checkpointAt = -1;
            failed = false;
            done = false;
        }
    }

    public static void main(String[] files) throws Exception {
        Configuration cluster = new Configuration();
        cluster.setString("rest.bind-address", "127.0.0.1");
        cluster.setString("rest.port", "0");
        cluster.setString("heartbeat.timeout", "600000"); // a slow machine is no failure
        cluster.setString("akka.ask.timeout", "600 s");
        var shape = new MiniClusterConfiguration.Builder().setConfiguration(cluster).setNumSlotsPerTaskManager(4);
        try (MiniCluster mini = new MiniCluster(shape.build())) {
            mini.start();
            for (String name : files) {
                Properties options = new Properties();
                try (var file = Files.newBufferedReader(Path.of(name))) {
                    options.load(file);
                }
                run(mini, options);
            }
        }
    }

    /** Runs one job until its last model has arrived, and triggers the checkpoints that its source asks for. */
    private static void run(MiniCluster mini, Properties options) throws Exception {
        Shared.clear();
        JobID job = mini.submitJob(graph(options)).get().getJobID();
        int triggered = -1;
        for (int turn = 0; !Shared.done; turn++) {
            if (turn % 250 == 0 && mini.getJobStatus(job).get().isGloballyTerminalState()) {
                mini.requestJobResult(job).get().toJobExecutionResult(FlinkMl.class.getClassLoader());
                throw new IllegalStateException("the job ended before its last model");
            }
            int wanted = Shared.checkpointAt;
            if (wanted <= triggered || completes(mini.triggerCheckpoint(job))) {
                triggered = wanted;
            }
            Thread.sleep(2);
        }
        write(Path.of(options.getProperty("output")));
        mini.cancelJob(job).get();
        mini.requestJobResult(job).get();
    }

    /** False if a task declined the checkpoint, which is then taken again; the source waits for it. */
    private static boolean completes(CompletableFuture<String> checkpoint) throws Exception {
        try {
            checkpoint.get();
            return true;
        } catch (ExecutionException error) {
            if (error.getCause() instanceof CheckpointException) {
                System.err.println("taken again: " + error.getCause().getMessage());
                return false;
            }
            throw error;
        }
    }

    private static JobGraph graph(Properties options) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.setBufferTimeout(1);
        env.enableCheckpointing(NEVER, CheckpointingMode.EXACTLY_ONCE); // `main` triggers each checkpoint
        env.getCheckpointConfig().setCheckpointStorage(Path.of(options.getProperty("checkpoints")).toUri());
        env.getCheckpointConfig().setTolerableCheckpointFailureNumber(100);
        env.getCheckpointConfig()
                .setExternalizedCheckpointCleanup(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION);
        boolean restarted = options.getProperty("failure").equals("exception");
        env.setRestartStrategy(RestartStrategies.fixedDelayRestart(restarted ? 1 : 0, 0));
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);

        DataStream<Row> records =
                env.addSource(new Records(options))
                        .map(new Witness())
                        .returns(
                                Types.ROW_NAMED(
                                        new String[] {"features", "label"}, DenseVectorTypeInfo.INSTANCE, Types.DOUBLE));
        var zeros = new DenseVector(new double[Integer.parseInt(options.getProperty("dimensions"))]);
        Table first = tables.fromDataStream(env.fromElements(new LogisticRegressionModelData(zeros, 0L)));
        var learner =
                new OnlineLogisticRegression()
                        .setInitialModelData(first)
                        .setFeaturesCol("features")
                        .setLabelCol("label")
                        .setGlobalBatchSize(Integer.parseInt(options.getProperty("batch")))
                        .setAlpha(Double.parseDouble(options.getProperty("alpha")))
                        .setBeta(Double.parseDouble(options.getProperty("beta")))
                        .setReg(0.0)
                        .setElasticNet(0.0);
        Table models = learner.fit(tables.fromDataStream(records)).getModelData()[0];
        LogisticRegressionModelDataUtil.getModelDataStream(models).addSink(new Models());

        JobGraph graph = env.getStreamGraph().getJobGraph();
        String restored = options.getProperty("restore", "");
        if (!restored.isEmpty()) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(restored));
        }
        return graph;
    }

    /** Writes a line for each model that arrived, its version and coefficients, and then the records that passed. */
    private static void write(Path output) throws Exception {
        List<String> lines = new ArrayList<>();
        for (LogisticRegressionModelData model : Shared.models) {
            StringBuilder line = new StringBuilder().append(model.modelVersion);
            for (double weight : model.coefficient.values) {
                line.append(' ').append(weight);
            }
            lines.add(line.toString());
        }
        lines.add("records " + Shared.records + " " + Long.toHexString(Shared.digest));
        Files.write(output, lines);
    }

    /** Reads the file; its position is in Flink's checkpoint, so a restart reads on from there. */
    private static final class Records implements SourceFunction<Row>, CheckpointedFunction, CheckpointListener {
        private final String stream;
        private final String failure;
        private final int failAt;
        private final int batch;
        private final int every;
        private final int dimensions;
        private int position;
        private transient ListState<Integer> saved;
        private transient volatile int savedAt;
        private transient volatile int completed;
        private transient volatile boolean cancelled;

        Records(Properties options) {
            stream = options.getProperty("stream");
            failure = options.getProperty("failure");
            failAt = Integer.parseInt(options.getProperty("fail_at"));
            batch = Integer.parseInt(options.getProperty("batch"));
            dimensions = Integer.parseInt(options.getProperty("dimensions"));
            every = Integer.parseInt(options.getProperty("checkpoint_every"));
        }

        @Override
        public void run(SourceContext<Row> context) throws Exception {
            List<String> lines = Files.readAllLines(Path.of(stream));
            int start = position;
            Shared.updates = 0;
            while (position < lines.size() && !cancelled) {
                if (position % batch == 0) {
                    int updates = (position - start) / batch;
                    await(() -> Shared.updates >= updates);
                }
                if (position % every == 0 && position > start) {
                    completed = -1;
                    Shared.checkpointAt = position;
                    await(() -> completed == position);
                }
                if (position == failAt && failure.equals("exception") && !Shared.failed) {
                    Shared.failed = true;
                    Shared.checkpointAt = -1;
                    throw new IllegalStateException("the injected failure at record " + position);
                }
                if (position == failAt && failure.equals("kill")) {
                    System.out.println("waiting for SIGKILL at record " + position);
                    await(() -> false);
                }
                Row row = parsed(lines.get(position));
                synchronized (context.getCheckpointLock()) {
                    context.collect(row);
                    position++;
                }
            }
            int updates = (position - start) / batch;
            await(() -> Shared.updates >= updates);
            if (!cancelled) {
                Shared.done = true;
                await(() -> false);
            }
        }

        /** A line holds the label and then `index:value` pairs, the other values are 0. */
        private Row parsed(String line) {
            String[] parts = line.split(" ");
            double[] vector = new double[dimensions];
            for (int i = 1; i < parts.length; i++) {
                int colon = parts[i].indexOf(':');
                vector[Integer.parseInt(parts[i].substring(0, colon))] =
                        Double.parseDouble(parts[i].substring(colon + 1));
            }
            return Row.of(new DenseVector(vector), Double.parseDouble(parts[0]));
        }

        private void await(BooleanSupplier condition) throws InterruptedException {
            while (!cancelled && !condition.getAsBoolean()) {
                Thread.sleep(1);
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            saved.update(List.of(position));
            savedAt = position;
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            saved = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("position", Types.INT));
            for (int read : saved.get()) {
                position = read;
            }
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) {
            completed = savedAt;
        }

        @Override
        public void cancel() {
            cancelled = true;
        }
    }

    /** A control: counts and digests the records, in their order, in state that it saves and reads back. */
    private static final class Witness implements MapFunction<Row, Row>, CheckpointedFunction {
        private long records;
        private long digest = 1;
        private transient ListState<Long> saved;

        @Override
        public Row map(Row row) {
            records++;
            digest = 31 * digest + Arrays.hashCode(((DenseVector) row.getField(0)).values) + row.getField(1).hashCode();
            Shared.records = records;
            Shared.digest = digest;
            return row;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            saved.update(List.of(records, digest));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            saved = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("witness", Types.LONG));
            List<Long> read = new ArrayList<>();
            saved.get().forEach(read::add);
            if (!read.isEmpty()) {
                records = read.get(0);
                digest = read.get(1);
            }
        }
    }

    /** Keeps every model that arrives. */
    private static final class Models implements SinkFunction<LogisticRegressionModelData> {
        @Override
        public void invoke(LogisticRegressionModelData model, Context context) {
            double[] weights = model.coefficient.values.clone();
            Shared.models.add(new LogisticRegressionModelData(new DenseVector(weights), model.modelVersion));
            Shared.updates++;
        }
    }
}

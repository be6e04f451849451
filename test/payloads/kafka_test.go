//go:build integration

package payloads

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/builder/payload"
	"spore/builder/store"
)

const kafkaPins = root + "/kafka"

// The jars that pom.xml leads to are those of pom.sum, by Maven's own word. UPDATE=1 writes pom.sum and plugin.sum
// anew.
func TestJarsAreAllPinned(t *testing.T) {
	o := payload.Options{Env: os.Environ()}
	if os.Getenv("UPDATE") != "" {
		plugin, err := payload.PluginSums(context.Background(), kafkaPins, o)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(kafkaPins, payload.PluginFile), plugin, 0o644))
	}
	got, err := payload.Sums(context.Background(), kafkaPins, o)
	require.NoError(t, err)
	file := filepath.Join(kafkaPins, payload.SumFile)
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "UPDATE=1 go test writes %s again; review the changes", file)

	t.Run("a plugin with another jar is not run", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kafka")
		require.NoError(t, os.CopyFS(dir, os.DirFS(kafkaPins)))
		file := filepath.Join(dir, payload.PluginFile)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		line := regexp.MustCompile(`(?m)^(org/apache/maven/plugins/maven-dependency-plugin/\S+\.jar \d+ sha256:)[0-9a-f]{8}`)
		forged := line.ReplaceAll(text, []byte("${1}00000000"))
		require.NotEqual(t, text, forged)
		require.NoError(t, os.WriteFile(file, forged, 0o644))
		_, err = payload.Sums(context.Background(), dir, o)
		require.ErrorContains(t, err, "it is damaged or forged, and was not run")
	})
	t.Run("a jar of another hash is refused", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "kafka")
		require.NoError(t, os.CopyFS(dir, os.DirFS(kafkaPins)))
		hash := regexp.MustCompile(`(?m)^(org\.apache\.kafka:kafka-raft:\S+ \d+ sha256:)[0-9a-f]{8}`)
		forged := hash.ReplaceAll(want, []byte("${1}00000000"))
		require.NotEqual(t, want, forged)
		require.NoError(t, os.WriteFile(filepath.Join(dir, payload.SumFile), forged, 0o644))
		st, err := store.Open(t.TempDir())
		require.NoError(t, err)
		_, err = payload.Build(context.Background(), st, dir, o)
		require.ErrorContains(t, err, "payload kafka: org.apache.kafka:kafka-raft:")
		require.ErrorContains(t, err, "damaged or forged")
	})
}

// kafka runs broker and controller from the jars alone, and the tools beside them. That each kind of compression comes
// through shows that the libraries in the jars are those of this machine.
func kafka(t *testing.T, b image) {
	dir := t.TempDir()
	client, controller := freeAddress(t), freeAddress(t)
	config := filepath.Join(dir, "server.properties")
	require.NoError(t, os.WriteFile(config, []byte(strings.Join([]string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.bootstrap.servers=" + controller,
		"listeners=CLIENT://" + client + ",CONTROLLER://" + controller, "controller.listener.names=CONTROLLER",
		"listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT", "inter.broker.listener.name=CLIENT",
		"log.dirs=" + filepath.Join(dir, "data"), "offsets.topic.replication.factor=1", "",
	}, "\n")), 0o600))
	id := strings.TrimSpace(b.run(t, nil, "/usr/bin/kafka-storage", "random-uuid"))
	require.Len(t, id, 22)
	b.run(t, nil, "/usr/bin/kafka-storage", "format", "--cluster-id", id, "--config", config, "--standalone")

	libs := b.path("/usr/share/kafka/libs")
	stop := start(t, "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dlog4j2.configurationFile="+b.path("/usr/share/kafka/log4j2.properties"), "-cp", libs+"/*", "kafka.Kafka", config)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", client)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, time.Minute, 200*time.Millisecond, "the broker does not listen")
	require.Contains(t, b.run(t, nil, "/usr/bin/kafka-cluster", "cluster-id", "--bootstrap-server", client), id)
	require.Regexp(t, `LeaderId:\s+1\n`, b.run(t, nil, "/usr/bin/kafka-metadata-quorum", "--bootstrap-server", client, "describe", "--status"))
	for _, kind := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.run(t, nil, "/usr/bin/kafka-topics", "--bootstrap-server", client, "--create", "--topic", kind, "--partitions", "1")
		text := strings.Repeat("what is "+kind+" ", 100)
		b.feed(t, text+"\n", nil, "/usr/bin/kafka-console-producer", "--bootstrap-server", client, "--topic", kind, "--compression-codec", kind)
		got := b.run(t, nil, "/usr/bin/kafka-console-consumer", "--bootstrap-server", client, "--topic", kind, "--from-beginning", "--max-messages", "1")
		require.Contains(t, got, text)
	}
	stop()
	segment := filepath.Join(dir, "data", "zstd-0", "00000000000000000000.log")
	dump := b.run(t, nil, "/usr/bin/kafka-dump-log", "--files", segment)
	require.Contains(t, dump, "compresscodec: zstd")
}

// kafkaComplains: the journal takes each line for a message, and its priority from the number before it (sd-daemon(3)).
func kafkaComplains(t *testing.T, b image) {
	config := filepath.Join(t.TempDir(), "server.properties")
	require.NoError(t, os.WriteFile(config, []byte("node.id=1\n"), 0o600))
	cmd := exec.Command("java", "-Dlog4j2.configurationFile="+b.path("/usr/share/kafka/log4j2.properties"), "-cp", b.path("/usr/share/kafka/libs")+"/*", "kafka.Kafka", config)
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Regexp(t, `(?m)^<3>Kafka\$: .* \| .*ConfigException: Missing required configuration "process.roles".* \| \s*at `, string(out))
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		require.Regexp(t, `^<[0-7]>`, line)
	}
}

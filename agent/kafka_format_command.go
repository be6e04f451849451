package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spore/agent/atomicfile"
	"spore/agent/formation"
	"spore/agent/kafka"
	"spore/agent/render"
	"spore/cluster/facts"
)

const (
	// kafkaAccount is whose Kafka's directories are.
	kafkaAccount = "kafka"
	// storageTool is Kafka's own.
	storageTool = "/usr/bin/kafka-storage"
	// javaProgram is what kafka.service starts.
	javaProgram = "/usr/bin/java"
)

// kafkaFormatCommand makes Kafka's storage ready before Kafka starts, as root: a controller's when it is known whether to
// form a quorum or to join the one that is there.
func kafkaFormatCommand(ctx context.Context, m *machine, args []string) error {
	if len(args) > 0 {
		return usageError{"usage: spore-agent kafka-format"}
	}
	c, n, err := m.kafkaNode()
	if err != nil {
		return err
	}
	dir := runtimeDirectory("kafka")
	if dir == "" {
		return errors.New("RUNTIME_DIRECTORY is not set: kafka-format is for ExecStartPre= of kafka.service")
	}
	storage, err := kafkaStorage(c, n)
	if err != nil {
		return err
	}
	if err := storage.Check(); err != nil {
		return err
	}
	if slices.Contains(c.KafkaBrokers(), n.Name) && c.Services.Kafka().AcknowledgeFromMemory {
		m.say("kafka.yaml has acknowledgeFromMemory: records are acknowledged before they are on a disk, and brokers that lose power together lose them")
	}
	if err := m.kafkaArchive(dir); err != nil { // It only saves time.
		m.say(err.Error())
	}
	format := func(ctx context.Context, voters []kafka.Voter) error {
		return storage.Format(ctx, voters, filepath.Join(dir, "server.properties"), filepath.Join(dir, "format.properties"), m.kafkaTool)
	}
	if slices.Contains(c.KafkaControllers(), n.Name) {
		_, err := m.enterQuorum(ctx, formation.Kafka(), storage.Empty, func(ctx context.Context, p formation.Plan) error {
			if err := storage.Clear(); err != nil {
				return err
			}
			if p.Kind != formation.Form {
				return format(ctx, nil)
			}
			voters, err := m.kafkaVoters(storage.Cluster, p)
			if err != nil {
				return err
			}
			return format(ctx, voters)
		})
		if err != nil {
			return err
		}
	}
	// What is left is a broker's that is no controller, or a disk that is new.
	if empty, err := storage.Empty(); err != nil {
		return err
	} else if empty {
		if err := storage.Clear(); err != nil {
			return err
		}
	}
	if left, err := storage.Unformatted(); err != nil || len(left) == 0 {
		return err
	}
	return format(ctx, nil)
}

// kafkaArchive says in the runtime directory which archive of classes the JVM is to use.
func (m *machine) kafkaArchive(dir string) error {
	path := filepath.Join(dir, "archive.args")
	if _, err := atomicfile.Write(path, nil, 0o644); err != nil {
		return err
	}
	options, err := kafka.ReadRuntime(filepath.Join(dir, "jvm.args"))
	if err != nil {
		return fmt.Errorf("read the options of the JVM: %w", err)
	}
	for _, name := range []string{"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"} { // kafka.env, which the unit reads
		options = append(options, os.Getenv(name)+"\n"...)
	}
	files, err := filepath.Glob(render.KafkaJars)
	if err != nil {
		return err
	}
	java, err := filepath.EvalSymlinks(javaProgram)
	if err != nil {
		return fmt.Errorf("look for Java: %w", err)
	}
	lib := filepath.Join(filepath.Dir(filepath.Dir(java)), "lib")
	files = append(files, filepath.Join(lib, "modules"), filepath.Join(lib, "server/libjvm.so"), filepath.Join(lib, "server/classes.jsa"))
	archive, err := kafka.Archive(render.KafkaArchives, files, options)
	if err != nil {
		return err
	}
	_, err = atomicfile.Write(path, render.KafkaArchive(archive), 0o644)
	return err
}

// kafkaStorage is where this node's Kafka keeps its data.
func kafkaStorage(c *facts.Cluster, n *facts.Node) (*kafka.Storage, error) {
	id, err := credential("kafka-cluster-id")
	if err != nil {
		return nil, err
	}
	s := &kafka.Storage{Metadata: render.KafkaMetadata, Cluster: strings.TrimSpace(string(id)), Node: facts.KafkaID(n.Name)}
	if slices.Contains(c.KafkaBrokers(), n.Name) {
		s.Disks, s.Data = render.KafkaLogs(n)
	}
	return s, nil
}

// kafkaVoters are the controllers that form the quorum, as each of them computes them.
func (m *machine) kafkaVoters(cluster string, p formation.Plan) ([]kafka.Voter, error) {
	var out []kafka.Voter
	for _, name := range p.Names() {
		n, err := m.part.Node(name)
		if err != nil {
			return nil, err
		}
		if len(n.IPs) == 0 {
			return nil, fmt.Errorf("the controller %s has no address in cluster.yaml; give it one under ips", name)
		}
		out = append(out, kafka.Voter{
			Node: facts.KafkaID(name), Address: net.JoinHostPort(n.IPs[0], strconv.Itoa(render.KafkaControllerPort)),
			Directory: kafka.DirectoryID(cluster, name, p.Members[name]),
		})
	}
	return out, nil
}

// kafkaTool runs Kafka's StorageTool as the user that Kafka runs as.
func (m *machine) kafkaTool(ctx context.Context, arguments []string) error {
	uid, gid, err := accountOf(kafkaAccount)
	if err != nil {
		return err
	}
	m.say("formatting the storage of Kafka")
	cmd := exec.CommandContext(ctx, storageTool, arguments...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if line != "" {
			m.say(line)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", storageTool, err)
	}
	return nil
}

func accountOf(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	ids := [2]uint32{}
	for i, text := range []string{u.Uid, u.Gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("account %s: %w", name, err)
		}
		ids[i] = uint32(n)
	}
	return ids[0], ids[1], nil
}
